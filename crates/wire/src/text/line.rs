//! One line of tcpdump's text.

use record::SeqNumber;

use crate::segment::{Flags, Network, TcpOptions};

/// A time as printed, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Since 1970 (`-tt`, `-tttt`; the latter in the printing machine's zone, taken as UTC).
    Absolute(u64),
    /// Since the connection's start, in whole microseconds, as in the dumps of 1999.
    Relative(u64),
    /// Since the packet before (`-ttt`).
    Since(u64),
    /// Since midnight.
    Clock(u64),
}

/// What `-v` prints of the IP header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Header {
    pub(super) network: Network,
}

/// A TCP segment as printed.
pub(super) struct Line<'a> {
    pub(super) source: (&'a str, u16),
    pub(super) destination: (&'a str, u16),
    pub(super) seq: Option<u32>,
    pub(super) ack: Option<u32>,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) header_bytes: u8,
    pub(super) payload: u32,
    pub(super) options: TcpOptions,
}

/// Nanoseconds of a fraction's digits.
fn fraction(digits: &str) -> Option<u64> {
    let nine = digits.get(..9).unwrap_or(digits);
    if nine.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    nine.parse::<u64>().ok()?.checked_mul(10u64.pow(9 - nine.len() as u32))
}

fn clock(text: &str) -> Option<u64> {
    let (whole, digits) = text.split_once('.')?;
    let mut parts = whole.split(':').map(str::parse::<u64>);
    let (Some(Ok(h)), Some(Ok(m)), Some(Ok(s)), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    (h < 1_000_000 && m < 60 && s < 61).then_some(())?;
    Some((h * 3_600 + m * 60 + s) * 1_000_000_000 + fraction(digits)?)
}

/// Days since 1970 of a date of the Gregorian calendar, counted in years that begin in March.
fn days(date: &str) -> Option<u64> {
    let mut parts = date.split('-').map(str::parse::<u64>);
    let (Some(Ok(y)), Some(Ok(m)), Some(Ok(d)), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    if !(1970..=2500).contains(&y) || !(1..=12).contains(&m) || !(1..=31).contains(&d) {
        return None;
    }
    let (year, month) = if m > 2 { (y, m - 3) } else { (y - 1, m + 9) };
    // 719,468 days lie between 1 March of year 0 and 1 January 1970.
    Some(year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + d - 1 - 719_468)
}

/// The time at the start of a line, and what follows.
pub(super) fn time(text: &str) -> Option<(Time, &str)> {
    let (first, rest) = text.trim_start().split_once(' ')?;
    if let Some(ns) = clock(first) {
        // Differences are printed with a blank before them.
        let time = if text.starts_with(' ') { Time::Since(ns) } else { Time::Clock(ns) };
        return Some((time, rest.trim_start()));
    }
    if let Some(day) = days(first) {
        let (second, rest) = rest.split_once(' ')?;
        return Some((Time::Absolute(day * 86_400_000_000_000 + clock(second)?), rest.trim_start()));
    }
    if let Some((seconds, digits)) = first.split_once('.') {
        let whole = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
        return Some((Time::Absolute(whole.checked_add(fraction(digits)?)?), rest.trim_start()));
    }
    let number = first.parse::<u64>().ok()?;
    // Two blanks follow a packet's number (`--number`), and then its time, which has a blank itself
    // where it is a difference.
    if let Some(stamped) = rest.strip_prefix(' ')
        && stamped.trim_start().split(' ').next().is_some_and(|word| word.contains(['.', '-']))
        && let Some(found) = time(stamped)
    {
        return Some(found);
    }
    Some((Time::Relative(number.checked_mul(1_000)?), rest.trim_start()))
}

/// Skips the link header that `-e` prints before IPv4 and IPv6.
pub(super) fn link(text: &str) -> &str {
    let (first, _) = text.split_once(' ').unwrap_or((text, ""));
    if first.len() != 17 || first.split(':').filter(|byte| u8::from_str_radix(byte, 16).is_ok()).count() != 6 {
        return text;
    }
    let Some((_, rest)) = text.split_once(", ethertype IPv") else { return text };
    // The last type is the one within the tags. What comes after it in the frame has none.
    let rest = rest.split_once("), ").map_or(rest, |(_, rest)| rest);
    match rest.strip_prefix("length ").and_then(|rest| rest.split_once(": ")) {
        Some((_, rest)) => rest,
        None => rest,
    }
}

/// Whether a line that follows a packet is the first of its bytes as `-A` prints them: an IP header
/// without what cannot be printed. Lines of payload follow, blank ones among them.
pub(super) fn is_ascii_dump(text: &str) -> bool {
    let mut letters = text.chars();
    match letters.next() {
        // Version 4 with a header of 20 bytes, and the type of service.
        Some('E') => letters.next().is_some_and(|c| !c.is_ascii_alphanumeric()),
        // Version 6.
        Some('`') => true,
        _ => false,
    }
}

/// What `-v` prints in brackets, and what follows.
pub(super) fn header(text: &str) -> (Option<Header>, &str) {
    // After a link header, which gave the version, the brackets come first.
    let bare = text.starts_with('(').then_some(0);
    let Some(at) = bare.or_else(|| text.find("IP (")).or_else(|| text.find("IP6 (")) else { return (None, text) };
    let inside_from = at + text[at..].find('(').unwrap_or(0) + 1;
    let mut depth = 1;
    let close = text[inside_from..].char_indices().find(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    });
    let Some((length, _)) = close else { return (None, text) };
    let inside = &text[inside_from..inside_from + length];
    let field = |name: &str| inside.split(", ").find_map(|part| part.trim().strip_prefix(name)).map(str::trim);
    let class = field("tos 0x").or_else(|| field("class 0x"));
    let class = class.and_then(|hex| u8::from_str_radix(hex.split([',', ' ']).next()?, 16).ok()).unwrap_or(0);
    let network = Network {
        ttl: field("ttl").or_else(|| field("hlim")).and_then(|n| n.parse().ok()).unwrap_or(0),
        id: field("id").and_then(|n| n.parse().ok()),
        dont_fragment: field("flags").map_or_else(|| field("hlim").is_some(), |f| f.contains("DF")),
        dscp: class >> 2,
        ecn: [crate::Ecn::NotEct, crate::Ecn::Ect1, crate::Ecn::Ect0, crate::Ecn::Ce][usize::from(class & 3)],
        tunnels: 0,
    };
    (Some(Header { network }), text[inside_from + length + 1..].trim_start())
}

/// Whether what follows a time is a packet: `SENDER > RECEIVER: …`, or a protocol without
/// addresses.
pub(super) fn is_packet(text: &str) -> bool {
    text.split_once(" > ").is_some_and(|(_, right)| right.split(' ').next().is_some_and(|to| to.ends_with(':')))
        || ["ARP,", "IP ", "IP6 ", "arp "].iter().any(|start| text.starts_with(start))
}

fn endpoint(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once('.')?;
    let port = match port {
        "ftp-data" => 20,
        "ftp" => 21,
        "ssh" => 22,
        "telnet" => 23,
        "smtp" => 25,
        "domain" => 53,
        "http" | "www" => 80,
        "pop3" => 110,
        "imap" | "imap2" => 143,
        "https" => 443,
        number => number.parse().ok()?,
    };
    (!host.is_empty()).then_some((host, port))
}

fn flags(letters: &str) -> Option<Flags> {
    let mut flags = Flags::empty();
    for letter in letters.chars() {
        flags |= match letter {
            'F' => Flags::FIN,
            'S' => Flags::SYN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            '.' => Flags::ACK,
            'U' => Flags::URG,
            'E' => Flags::ECE,
            'W' => Flags::CWR,
            'e' => Flags::AE,
            _ => return None,
        };
    }
    Some(flags)
}

/// A TCP segment in today's form or that of 1999.
pub(super) fn tcp(text: &str) -> Option<Line<'_>> {
    let (left, right) = text.split_once(" > ")?;
    let source = endpoint(left.rsplit(' ').next()?)?;
    let (to, rest) = right.split_once(' ')?;
    let destination = endpoint(to.strip_suffix(':')?)?;
    let rest = rest.trim_start();
    let mut line = Line {
        source,
        destination,
        seq: None,
        ack: None,
        flags: Flags::empty(),
        window: 0,
        header_bytes: 20,
        payload: 0,
        options: TcpOptions::default(),
    };
    let number_after = |text: &str, word: &str| -> Option<u32> {
        let at = text.find(word)? + word.len();
        let digits = &text[at..];
        digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok()
    };
    let today = rest.strip_prefix("Flags [");
    let (letters, fields, list) = match today {
        Some(rest) => {
            let (letters, rest) = rest.split_once(']')?;
            let (fields, list) = match rest.split_once("options [") {
                Some((fields, list)) => (fields, options_end(list)),
                None => (rest, None),
            };
            let after = list.map_or(rest, |(_, after)| after);
            line.payload = number_after(after, "length ").or_else(|| number_after(rest, "length "))?;
            line.seq = number_after(fields, " seq ");
            (letters, fields, list.map(|(list, _)| list))
        }
        None => {
            let (letters, rest) = rest.split_once(' ')?;
            let (fields, list) = match rest.split_once('<') {
                Some((fields, list)) => (fields, Some(list.split_once('>').map_or(list, |(list, _)| list))),
                None => (rest, None),
            };
            // `first:last(bytes)`, omitted where there are none.
            if let Some((numbers, bytes)) = fields.split_once('(')
                && let Some((first, _)) = numbers.split_once(':')
            {
                line.seq = Some(first.parse().ok()?);
                line.payload = bytes.split_once(')')?.0.parse().ok()?;
            }
            (letters, fields, list)
        }
    };
    line.flags = flags(if today.is_none() && letters == "." { "" } else { letters })?;
    line.ack = number_after(fields, "ack ");
    // In 1999 the dot stood for no flags at all, and an acknowledgment is recognised by its number.
    line.flags.set(Flags::ACK, line.ack.is_some());
    line.window = number_after(fields, "win ")?.try_into().ok()?;
    if let Some(list) = list {
        let bytes = options(list, &mut line.options);
        line.header_bytes = (20 + bytes.next_multiple_of(4)).min(60) as u8;
    }
    Some(line)
}

/// Splits at the bracket that closes the list; options with brackets within (`[|tcp]`, `[bad opt]`)
/// are balanced.
fn options_end(list: &str) -> Option<(&str, &str)> {
    let mut depth = 1;
    let (at, _) = list.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '[') - i32::from(*c == ']');
        depth == 0
    })?;
    Some((&list[..at], &list[at + 1..]))
}

/// Takes up the options of a list; gives their bytes in the header, as far as is known.
fn options(list: &str, into: &mut TcpOptions) -> usize {
    let mut bytes = 0;
    for option in list.split(',') {
        let cut = option.contains("[|");
        into.cut |= cut;
        let option = option.split_once("[|").map_or(option, |(before, _)| before).trim();
        let mut words = option.split_whitespace();
        let name = words.next().unwrap_or("");
        let numbers: Vec<u32> = words.clone().filter_map(|word| word.parse().ok()).collect();
        let first = numbers.first().copied();
        bytes += match name {
            "" => 0,
            "nop" | "eol" => 1,
            "mss" => {
                into.mss = first.and_then(|n| n.try_into().ok());
                4
            }
            "wscale" => {
                into.window_scale = first.and_then(|n| n.try_into().ok());
                3
            }
            "sackOK" => {
                into.sack_permitted = true;
                2
            }
            "TS" | "timestamp" => {
                into.timestamps = Some((first, numbers.get(1).copied()));
                10
            }
            "sack" => sack(option, into),
            "tfo" => {
                let cookie = option.rsplit("cookie").next().map_or("", str::trim);
                let length = if option.contains("cookiereq") { 0 } else { cookie.len() / 2 };
                into.fast_open = Some(length as u8);
                2 + length
            }
            "mptcp" => {
                // `mptcp 12 capable …`; the numbers of RFC 8684, section 3.
                let names = ["capable", "join", "dss", "add-addr", "rem-addr", "prio", "fail", "fast-close"];
                into.mptcp = names.iter().position(|n| words.clone().any(|w| w == *n)).map(|n| n as u8);
                first.map_or(4, |n| n as usize)
            }
            name if name.starts_with("acc-ecn") || name.starts_with("AccECN") => {
                into.accecn = true;
                5
            }
            _ => {
                into.unknown = into.unknown.saturating_add(1);
                2
            }
        };
    }
    bytes
}

/// `sack 2 {a:b}{c:d}`.
fn sack(option: &str, into: &mut TcpOptions) -> usize {
    let mut bytes = 2;
    for block in option.split('{').skip(1) {
        let ends = block.split('}').next().and_then(|ends| ends.split_once(':'));
        if let Some((left, right)) = ends
            && let (Ok(left), Ok(right)) = (left.parse(), right.parse())
        {
            into.sack.push(SeqNumber(left), SeqNumber(right));
            bytes += 8;
        }
    }
    bytes
}
