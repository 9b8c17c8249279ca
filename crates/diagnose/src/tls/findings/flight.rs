//! The server's certificate does not fit into its first congestion window, ten segments since RFC
//! 6928: a round trip more.

use record::Nanos;

use super::Shown;
use crate::drawn::Begun as _;
use crate::tls::analysis::Case;

pub(super) fn draw(case: &Case<'_>) -> Option<Shown> {
    let pause = case.cut?;
    let (bytes, before) = (u64::from(case.negotiation.flight_bytes), u64::from(pause.before));
    Some(Shown {
        waited: pause.from.at..pause.to.at,
        text: format!(
            "the certificate of {} is larger than the server's first window: of {} it sent {}, and waited {} for an ACK",
            case.server(),
            quantity::bytes(bytes),
            quantity::bytes(before),
            Nanos(pause.took())
        ),
        next: "send fewer and smaller certificates (no root, ECDSA keys, compression of certificates by RFC 8879), or \
               raise the initial congestion window (`ip route change … initcwnd`)"
            .into(),
    })
}
