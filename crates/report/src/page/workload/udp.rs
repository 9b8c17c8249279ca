//! Datagrams at a rate.

use quantity::{bit_rate, bytes, count, counted, percent, share};
use traffic::udp::{Config, Direction, Outcome};

use super::{DISTRIBUTED, buckets_curve, distributions, ended_early, withheld};
use crate::page::facts;
use paper::document::{Document, Section, Text, clauses, texts};
use paper::plot::{Axis, Hue, Layer, Plot, Unit, tidy};

/// What became of the datagrams.
pub fn document(config: &Config, o: &Outcome) -> Document {
    let d = &o.datagrams;
    let way = if config.direction == Direction::Down { "from" } else { "to" };
    let asked =
        if config.bits_per_second == 0 { "as fast as it goes".into() } else { bit_rate(config.bits_per_second as f64) };
    let about =
        format!("Datagrams of {} B, {asked} asked, {} sent in {}.", config.datagram_bytes, count(o.sent), o.elapsed);
    let mut verdict = vec![
        format!(
            "{} received: {}, {}.",
            bit_rate(o.goodput_bits_per_second),
            counted(d.received, "datagram"),
            bytes(o.received_bytes)
        ),
        format!(
            "{} of {} lost ({}), {} of them dropped at the receiver's socket; {} reordered, {} duplicated, {} too late to know.",
            count(d.lost),
            counted(d.expected, "datagram"),
            percent(share(d.lost.into(), d.expected.into())),
            count(d.dropped_at_socket),
            count(d.reordered),
            count(d.duplicated),
            count(d.too_late)
        ),
    ];
    if o.not_sent > 0 {
        verdict.push(format!("{} not sent: this host's queue was full.", counted(o.not_sent, "datagram")));
    }
    let mut times = Section::new("Delay");
    match &o.one_way_delay {
        Some(delay) => {
            times.table(distributions("", &[("one-way delay", delay)]));
            withheld([delay], &DISTRIBUTED).into_iter().for_each(|note| times.say(note));
        }
        None => times.say("The one-way delay is not known: the two ends do not share a clock."),
    }
    if o.impossible_delays > 0 {
        times.say(format!(
            "{} seemed to arrive before being sent, and have no delay.",
            counted(o.impossible_delays, "datagram")
        ));
    }
    times.plot(buckets_curve("one-way", "One-way delay", "datagrams", &o.one_way_delay_buckets));
    times.plot(over_time(o));
    let mut settings = Section::new("Settings and cost");
    settings.table(facts(
        "",
        [
            ("jitter", format!("{} (RFC 3550)", d.jitter)),
            ("sockets", o.socket_options.to_string()),
            ("CPU", format!("sender {}, receiver {}", o.sender_cpu.total(), o.receiver_cpu.total())),
        ],
    ));
    Document {
        title: Text::from(format!("udp {way} ")).and(config.target.server),
        about,
        verdict: clauses(verdict),
        warnings: texts(ended_early(o.interrupted.as_ref())),
        sections: vec![times, settings],
        ..Document::default()
    }
}

fn over_time(o: &Outcome) -> Option<Plot> {
    let rate = |i: &traffic::udp::Interval| {
        let ns = i.end.saturating_sub(i.start).0;
        (ns > 0).then(|| [i.end.0 as f64, tidy(i.bytes as f64 * 8e9 / ns as f64)])
    };
    let axes = (
        Axis::linear("time since the first datagram", Unit::Time).reaching(0.0),
        Axis::linear("received", Unit::Rate).reaching(0.0),
    );
    let layers = vec![Layer::line("received", Hue(0), o.series.iter().filter_map(rate).collect())];
    let caption = "at the receiver, by interval";
    (o.series.len() > 1)
        .then(|| Plot::new("received", "Goodput over time", caption, axes, layers))
        .flatten()
        .map(Plot::in_strips)
}
