//! The structures and constants that the BPF programs share with this crate, made at build from the
//! type information of the BPF objects (`build/bindings.rs`): what `bpf/record.h` and the headers
//! of the probes say `SHARED` of.

#![expect(dead_code, reason = "not every field of the BPF programs is read here")]

/// A structure of which every bit pattern is a value, read from and written as bytes.
///
/// # Safety
/// The type is `repr(C)`, has no padding, and every bit pattern of it is valid.
pub(crate) unsafe trait Plain: Copy {
    /// The structure at the start of `bytes`; `None` where they are too few.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < size_of::<Self>() {
            return None;
        }
        // SAFETY: there are enough bytes, any bit pattern is valid, and the read asks for no
        // alignment.
        Some(unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }

    /// The bytes of the structure.
    fn as_bytes(&self) -> &[u8] {
        // SAFETY: the structure has no padding, so all its bytes are initialised, and they live as
        // long as `self`.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The structure with every byte zero.
    fn zeroed() -> Self {
        // SAFETY: any bit pattern is valid, all zeros among them.
        unsafe { std::mem::zeroed() }
    }
}

include!(concat!(env!("OUT_DIR"), "/layout.rs"));

/// What one pass of the iterator over the sockets is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Pass {
    Follow = PASS_FOLLOW,
    Totals = PASS_TOTALS,
    Finish = PASS_FINISH,
    Read = PASS_READ,
}

// Enums of `record` that a byte of a BPF record is read as.
const _: () = {
    use record::{Congestion, WaitReason};
    assert!(WaitReason::ALL.len() == REASONS as usize);
    assert!(WaitReason::SentAtOnce as u32 == REASON_SENT_AT_ONCE);
    assert!(WaitReason::CongestionWindow as u32 == REASON_CONGESTION_WINDOW);
    assert!(WaitReason::ReceiveWindow as u32 == REASON_RECEIVE_WINDOW);
    assert!(WaitReason::SendBuffer as u32 == REASON_SEND_BUFFER);
    assert!(WaitReason::Pacing as u32 == REASON_PACING);
    assert!(WaitReason::Nagle as u32 == REASON_NAGLE);
    assert!(WaitReason::Cork as u32 == REASON_CORK);
    assert!(WaitReason::Autocork as u32 == REASON_AUTOCORK);
    assert!(WaitReason::SmallQueue as u32 == REASON_SMALL_QUEUE);
    assert!(WaitReason::Retransmission as u32 == REASON_RETRANSMISSION);
    assert!(WaitReason::Unknown as u32 == REASON_UNKNOWN);
    assert!(Congestion::Open as u32 == TCP_CA_OPEN);
    assert!(Congestion::Loss as u32 == TCP_CA_LOSS);
};

#[cfg(test)]
mod tests;
