//! The techniques, one file each.

mod af_xdp;
mod io_uring;
mod libpcap;
mod recvmmsg;
mod recvmsg;
mod rx_ring;
mod xdp;

use crate::hardware::HardwareStamps;
use crate::link::Link;
use crate::{About, Error, Options, Receiver, Stamps, Technique};

/// The technique that receives most on this interface and leaves its frames to the host: the ring,
/// or libpcap for links that are neither Ethernet nor loopback, of which it knows all, and for
/// `any`, which is all interfaces together.
///
/// # Errors
/// [`Error::NoInterface`], or the kernel's where it does not say what the link is.
pub fn best(interface: &str) -> Result<Technique, Error> {
    let on_ethernet = Link::every(interface).is_none() && Link::by_name(interface)?.is_ethernet();
    Ok(if on_ethernet { Technique::RxRing } else { Technique::Libpcap })
}

/// Opens a receiver on an interface of the calling thread's network namespace.
///
/// # Errors
/// [`Error`] says what is wrong with the options, or what this machine refuses. [`Error::Stamps`]
/// where the technique or the NIC has not got the timestamps that were asked for: they are never
/// replaced by others.
pub fn open(technique: Technique, options: &Options) -> Result<Box<dyn Receiver>, Error> {
    check(technique, options)?;
    let link = match Link::every(&options.interface) {
        Some(every) if technique == Technique::Libpcap => every,
        Some(every) => {
            let reason = "all interfaces together are known to libpcap alone: use that, or name one".into();
            return Err(Error::Technique { technique, interface: every.name, reason });
        }
        None => Link::by_name(&options.interface)?,
    };
    // Set before the socket is there, so that its first frame is stamped too; set back when the
    // receiver goes.
    let hardware = match options.stamps.hardware() {
        true => Some(HardwareStamps::on(technique, options)?),
        false => None,
    };
    Ok(match technique {
        Technique::Recvmsg => Box::new(recvmsg::Recvmsg::open(&link, options, hardware)?),
        Technique::Recvmmsg => Box::new(recvmmsg::Recvmmsg::open(&link, options, hardware)?),
        Technique::RxRing => Box::new(rx_ring::RxRing::open(&link, options, hardware)?),
        Technique::Libpcap => Box::new(libpcap::Libpcap::open(&link, options, hardware)?),
        Technique::AfXdp => Box::new(af_xdp::AfXdp::open(&link, options, hardware)?),
        Technique::Xdp => Box::new(xdp::Xdp::open(&link, options, hardware)?),
        Technique::IoUring => Box::new(io_uring::IoUring::open(&link, options, hardware)?),
    })
}

fn check(technique: Technique, options: &Options) -> Result<(), Error> {
    let wrong = |option, value: u32, reason: String| Err(Error::Option { option, value: value.to_string(), reason });
    if !(1..=Options::LONGEST_SNAP).contains(&options.snap_length) {
        return wrong("a snap length", options.snap_length, format!("it is 1 to {} bytes", Options::LONGEST_SNAP));
    }
    if options.buffer_bytes < 64 << 10 {
        return wrong("a buffer", options.buffer_bytes, "it is at least 64 KiB".into());
    }
    if !(1..=1024).contains(&options.batch) {
        return wrong("a batch", options.batch, "it is 1 to 1024 frames".into());
    }
    if options.fanout.is_some() && matches!(technique, Technique::Libpcap | Technique::AfXdp | Technique::Xdp) {
        return Err(Error::Option {
            option: "fanout",
            value: technique.name().into(),
            reason: "it cannot share an interface with other receivers; recvmsg, recvmmsg, rx-ring and io-uring can"
                .into(),
        });
    }
    if options.stamps == Stamps::Both && !technique.gives_both() {
        return Err(Error::Stamps {
            technique,
            stamps: options.stamps,
            interface: options.interface.clone(),
            reason: "it has room for one timestamp a frame; ask for software or hardware, or use recvmmsg".into(),
        });
    }
    Ok(())
}

fn about(technique: Technique, link: &Link, options: &Options, remarks: Vec<String>) -> About {
    About {
        technique,
        interface: link.name.clone(),
        link_type: link.link_type,
        snap_length: options.snap_length,
        remarks,
    }
}
