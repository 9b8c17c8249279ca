//! Classic BPF as eBPF for XDP: a program that hands frames that match on to the next program, and
//! lets others pass.
//!
//! Bytes are read by the helper `bpf_xdp_load_bytes` (Linux 5.18), which checks bounds at run time
//! as classic BPF does: a read beyond the frame ends the filter without a match.

use super::Classic;

/// One instruction of eBPF (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination in the low four bits, source in the high four.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Why a filter cannot be run by XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untranslatable {
    #[error("instruction {at} (code {code:#x}) has no counterpart in XDP")]
    Instruction { at: usize, code: u16 },
    #[error("it has {0} instructions, more than a jump reaches")]
    Long(usize),
}

// Registers: the context, A and X of classic BPF; 0 to 5 belong to calls.
const CONTEXT: u8 = 6;
const A: u8 = 7;
const X: u8 = 8;
const FRAME: u8 = 10;

/// Where bytes of the frame are read to, below the frame pointer.
const READ: i16 = -8;
/// Where the sixteen words of scratch memory begin, below that.
const SCRATCH: i16 = -72;

const HELPER_TAIL_CALL: i32 = 12;
const HELPER_XDP_GET_BUFF_LEN: i32 = 188;
const HELPER_XDP_LOAD_BYTES: i32 = 189;

const XDP_PASS: i32 = 2;

/// The slots of the program array: what runs first, and what a frame that matched goes on to.
pub(crate) const FIRST: u32 = 0;
pub(crate) const ACCEPTED: u32 = 1;

/// Where a jump goes.
#[derive(Clone, Copy)]
enum Target {
    /// The code of a classic instruction.
    Classic(usize),
    Reject,
}

#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Target)>,
}

impl Assembler {
    fn put(&mut self, code: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction { code, registers: destination | source << 4, offset, immediate });
    }

    /// 64-bit register to register.
    fn copy(&mut self, destination: u8, source: u8) {
        self.put(0xbf, destination, source, 0, 0);
    }

    /// 32-bit register to register.
    fn copy32(&mut self, destination: u8, source: u8) {
        self.put(0xbc, destination, source, 0, 0);
    }

    /// 32-bit constant to register.
    fn set(&mut self, destination: u8, value: u32) {
        self.put(0xb4, destination, 0, 0, value.cast_signed());
    }

    fn jump(&mut self, code: u8, destination: u8, source: u8, immediate: i32, to: Target) {
        self.jumps.push((self.code.len(), to));
        self.put(code, destination, source, 0, immediate);
    }

    /// `destination` = `size` bytes of the frame at `k`, plus X where `indirect`, in host byte
    /// order.
    fn load(&mut self, destination: u8, size: u8, k: u32, indirect: bool) {
        if indirect {
            self.copy32(2, X);
            self.put(0x04, 2, 0, 0, k.cast_signed());
        } else {
            self.set(2, k);
        }
        self.copy(1, CONTEXT);
        self.copy(3, FRAME);
        self.put(0x07, 3, 0, 0, READ.into());
        self.set(4, size.into());
        self.put(0x85, 0, 0, 0, HELPER_XDP_LOAD_BYTES);
        self.jump(0x55, 0, 0, 0, Target::Reject);
        let width = match size {
            1 => 0x71,
            2 => 0x69,
            _ => 0x61,
        };
        self.put(width, destination, FRAME, READ, 0);
        if size > 1 {
            self.put(0xdc, destination, 0, 0, i32::from(size) * 8);
        }
    }

    fn length(&mut self, destination: u8) {
        self.copy(1, CONTEXT);
        self.put(0x85, 0, 0, 0, HELPER_XDP_GET_BUFF_LEN);
        self.copy32(destination, 0);
    }

    /// On to the program in slot [`ACCEPTED`] of `programs`; if there is none, the frame passes.
    fn accept(&mut self, programs: i32) {
        self.copy(1, CONTEXT);
        // BPF_LD | BPF_IMM | BPF_DW with BPF_PSEUDO_MAP_FD, which takes two places.
        self.put(0x18, 2, 1, 0, programs);
        self.put(0, 0, 0, 0, 0);
        self.set(3, ACCEPTED);
        self.put(0x85, 0, 0, 0, HELPER_TAIL_CALL);
        self.reject();
    }

    fn reject(&mut self) {
        self.set(0, XDP_PASS.cast_unsigned());
        self.put(0x95, 0, 0, 0, 0);
    }

    fn one(&mut self, at: usize, instruction: &Classic, programs: i32) -> Result<(), Untranslatable> {
        let Classic { code, jump_true, jump_false, k } = *instruction;
        let none = Untranslatable::Instruction { at, code };
        let target = |distance: usize| Target::Classic(at + 1 + distance);
        // Offsets from 0xfffff000 on ask the kernel for what is beside the frame (SKF_AD_OFF),
        // which XDP has not got.
        let in_frame = k < 0xffff_f000;
        match code {
            // Loads: LD ABS, LD IND, LDX MSH, LEN, IMM, MEM.
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 if in_frame => {
                let size = match code & 0x18 {
                    0x00 => 4,
                    0x08 => 2,
                    _ => 1,
                };
                self.load(A, size, k, code & 0xe0 == 0x40);
            }
            0xb1 if in_frame => {
                self.load(X, 1, k, false);
                self.put(0x54, X, 0, 0, 0xf);
                self.put(0x64, X, 0, 0, 2);
            }
            0x80 => self.length(A),
            0x81 => self.length(X),
            0x00 => self.set(A, k),
            0x01 => self.set(X, k),
            0x60 | 0x61 | 0x02 | 0x03 if k < 16 => {
                let (register, place) = (if code & 1 == 1 { X } else { A }, SCRATCH + 4 * k as i16);
                match code {
                    0x60 | 0x61 => self.put(0x61, register, FRAME, place, 0),
                    _ => self.put(0x63, FRAME, register, place, 0),
                }
            }
            0x07 => self.copy32(X, A),
            0x87 => self.copy32(A, X),
            // Arithmetic on A: with K, with X, and NEG.
            0x84 => self.put(0x84, A, 0, 0, 0),
            0x04 | 0x14 | 0x24 | 0x34 | 0x44 | 0x54 | 0x64 | 0x74 | 0x94 | 0xa4 => {
                let divides = matches!(code, 0x34 | 0x94);
                if divides && k == 0 {
                    return Err(none);
                }
                self.put(code as u8, A, 0, 0, k.cast_signed());
            }
            0x0c | 0x1c | 0x2c | 0x3c | 0x4c | 0x5c | 0x6c | 0x7c | 0x9c | 0xac => {
                if matches!(code, 0x3c | 0x9c) {
                    self.jump(0x16, X, 0, 0, Target::Reject);
                }
                self.put(code as u8, A, X, 0, 0);
            }
            // Jumps compare 32 bits without a sign (BPF_JMP32).
            0x05 => self.jump(0x05, 0, 0, 0, target(k as usize)),
            0x15 | 0x25 | 0x35 | 0x45 | 0x1d | 0x2d | 0x3d | 0x4d => {
                let by_x = code & 0x08 != 0;
                let source = if by_x { X } else { 0 };
                let constant = if by_x { 0 } else { k.cast_signed() };
                self.jump((code as u8 & 0xf8) | 0x06, A, source, constant, target(jump_true.into()));
                self.jump(0x05, 0, 0, 0, target(jump_false.into()));
            }
            0x06 if k == 0 => self.reject(),
            0x06 => self.accept(programs),
            0x16 => {
                self.jump(0x16, A, 0, 0, Target::Reject);
                self.accept(programs);
            }
            _ => return Err(none),
        }
        Ok(())
    }
}

/// `filter` as a program for XDP. Frames that match go on to the program in slot [`ACCEPTED`] of
/// the program array with descriptor `programs`; others pass to the network stack.
///
/// # Errors
/// [`Untranslatable`] where an instruction asks for what XDP has not got, such as the VLAN tag that
/// a NIC took out.
pub(crate) fn translate(filter: &[Classic], programs: i32) -> Result<Vec<Instruction>, Untranslatable> {
    let mut out = Assembler::default();
    out.copy(CONTEXT, 1);
    out.set(A, 0);
    out.set(X, 0);
    // The verifier lets no one read stack that was not written.
    for word in 0..8 {
        out.put(0x7a, FRAME, 0, SCRATCH + 8 * word, 0);
    }
    let mut starts = Vec::with_capacity(filter.len());
    for (at, instruction) in filter.iter().enumerate() {
        starts.push(out.code.len());
        out.one(at, instruction, programs)?;
    }
    let reject = out.code.len();
    out.reject();
    for (from, to) in out.jumps {
        let place = match to {
            Target::Classic(at) => starts.get(at).copied().unwrap_or(reject),
            Target::Reject => reject,
        };
        let distance = place as i64 - from as i64 - 1;
        out.code[from].offset = i16::try_from(distance).map_err(|_| Untranslatable::Long(filter.len()))?;
    }
    Ok(out.code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Program;
    use wire::LinkType;

    fn classic(expression: &str) -> Vec<Classic> {
        Program::for_wire(LinkType::ETHERNET, expression, 64).unwrap().0
    }

    #[test]
    fn jumps_stay_within_the_program_and_it_ends_in_a_return() {
        for expression in
            ["tcp", "udp port 53", "ip6 and tcp", "tcp[13] & 2 != 0", "host 10.0.0.1 and portrange 5-9", "greater 100"]
        {
            let code = translate(&classic(expression), 3).unwrap();
            assert_eq!(code.last().map(|i| i.code), Some(0x95), "{expression}");
            for (at, i) in code.iter().enumerate().filter(|(_, i)| matches!(i.code & 0x07, 0x05 | 0x06)) {
                if matches!(i.code, 0x85 | 0x95) {
                    continue;
                }
                let to = at as i64 + 1 + i64::from(i.offset);
                assert!((0..code.len() as i64).contains(&to), "{expression}: {at} jumps to {to}");
            }
        }
    }

    #[test]
    fn what_is_beside_the_frame_is_refused() {
        let beside = Classic { code: 0x28, jump_true: 0, jump_false: 0, k: 0xffff_f000 };
        assert_eq!(translate(&[beside], 3), Err(Untranslatable::Instruction { at: 0, code: 0x28 }));
    }
}
