//! DNS messages (RFC 1035) with EDNS (RFC 6891); multicast DNS (RFC 6762) and LLMNR (RFC 4795) have
//! the same form.
//!
//! What an analysis asks for is read: the header, the questions, the addresses of the answer, and
//! EDNS. Other records are skipped.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::address::{be16, be32};
use super::span::{Fault, Span};

/// The port of DNS, over UDP and TCP.
pub const PORT: u16 = 53;
/// The port of multicast DNS.
pub const MULTICAST_PORT: u16 = 5353;
/// The port of LLMNR.
pub const LLMNR_PORT: u16 = 5355;

/// Bytes of a name as it is sent, its end included (RFC 1035, section 3.1).
const LONGEST_NAME: usize = 255;
/// Pointers that one name is followed through. Each leads to an earlier place, so that none is a
/// loop; a message of pointers alone would still take long.
const MOST_POINTERS: u32 = 64;
/// Questions, and names of records, that are kept of a message. Only multicast DNS has several.
const MOST_NAMES: usize = 32;
/// Addresses that are kept of an answer.
const MOST_ADDRESSES: usize = 64;

/// Types of records that are read or named.
pub mod kind {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// An IPv6 address.
    pub const AAAA: u16 = 28;
    /// EDNS.
    pub const OPT: u16 = 41;
}

/// Response codes that are decided by.
pub mod code {
    /// Answered, perhaps without a record.
    pub const NO_ERROR: u16 = 0;
    /// The name does not exist.
    pub const NO_SUCH_NAME: u16 = 3;
}

/// What is asked: a name and a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name as text (RFC 1035, section 5.1), in small letters and without the last dot: which
    /// case it was sent in says nothing (RFC 4343). The root is `.`.
    pub name: String,
    /// The type of record.
    pub kind: u16,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number that question and answer share.
    pub id: u16,
    /// It is an answer.
    pub is_response: bool,
    /// What is asked of the server: 0 for a query.
    pub opcode: u8,
    /// The answer did not fit.
    pub truncated: bool,
    /// The response code, with EDNS's upper bits.
    pub code: u16,
    /// The questions, at most 32.
    pub questions: Vec<Question>,
    /// Records in the answer section, as its header says.
    pub answers: u16,
    /// What the records of an answer without a question belong to, at most 32: multicast DNS has
    /// those.
    pub owners: Vec<Question>,
    /// The addresses in the answer section, at most 64.
    pub addresses: Vec<IpAddr>,
    /// The size of UDP answers that the sender takes, where it knows EDNS.
    pub udp_size: Option<u16>,
    /// Why what follows the questions was not read to its end, if it was not.
    pub rest: Option<Fault>,
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// Where the header or a question is not there whole, or is none.
    pub fn parse(span: Span<'_>) -> Result<Self, Fault> {
        let mut reader = Reader { span, at: 0 };
        let header: &[u8; 12] = reader.take()?;
        let [questions, answers, authorities, additional] = [4, 6, 8, 10].map(|at| be16(header, at));
        let mut message = Self {
            id: be16(header, 0),
            is_response: header[2] & 0x80 != 0,
            opcode: header[2] >> 3 & 15,
            truncated: header[2] & 2 != 0,
            code: u16::from(header[3] & 15),
            questions: Vec::new(),
            answers,
            owners: Vec::new(),
            addresses: Vec::new(),
            udp_size: None,
            rest: None,
        };
        for _ in 0..questions {
            let keeps = message.questions.len() < MOST_NAMES;
            let mut name = String::new();
            reader.name(keeps.then_some(&mut name))?;
            let rest: &[u8; 4] = reader.take()?;
            if keeps {
                message.questions.push(Question { name, kind: be16(rest, 0) });
            }
        }
        let records = [answers, authorities, additional];
        message.rest = records
            .into_iter()
            .enumerate()
            .try_for_each(|(section, count)| (0..count).try_for_each(|_| message.record(&mut reader, section == 0)))
            .err();
        Ok(message)
    }

    fn record(&mut self, reader: &mut Reader<'_>, is_answer: bool) -> Result<(), Fault> {
        let is_owner = is_answer && self.questions.is_empty() && self.owners.len() < MOST_NAMES;
        let mut name = String::new();
        reader.name(is_owner.then_some(&mut name))?;
        let header: &[u8; 10] = reader.take()?;
        let (record, class, length) = (be16(header, 0), be16(header, 2), be16(header, 8));
        let data = reader.bytes(length.into())?;
        if is_owner {
            self.owners.push(Question { name, kind: record });
        }
        // The first bit of multicast DNS's class is not a part of it.
        let is_internet = class & 0x7fff == 1;
        let address: Option<IpAddr> = match record {
            kind::OPT if !is_answer => {
                self.udp_size = Some(class);
                self.code |= ((be32(header, 4) >> 24) as u16) << 4;
                None
            }
            kind::A if is_internet => <[u8; 4]>::try_from(data).ok().map(Into::into),
            kind::AAAA if is_internet => <[u8; 16]>::try_from(data).ok().map(Into::into),
            _ => None,
        };
        if is_answer && self.addresses.len() < MOST_ADDRESSES {
            self.addresses.extend(address);
        }
        Ok(())
    }
}

struct Reader<'a> {
    span: Span<'a>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let bytes = self.span.data.get(self.at..).and_then(|rest| rest.get(..count));
        let bytes = bytes.ok_or_else(|| self.span.fault_before(self.at + count))?;
        self.at += count;
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], Fault> {
        self.bytes(N)?.try_into().map_err(|_| Fault::Malformed)
    }

    /// Passes a name, and writes it where it is wanted.
    fn name(&mut self, mut text: Option<&mut String>) -> Result<(), Fault> {
        let byte = |reader: &Self, at: usize| {
            reader.span.data.get(at).copied().ok_or_else(|| reader.span.fault_before(at + 1))
        };
        let (mut at, mut end, mut run, mut length, mut pointers) = (self.at, None, self.at, 1, 0);
        loop {
            let head = byte(self, at)?;
            match head {
                0 => break,
                1..=63 => {
                    let to = at + 1 + usize::from(head);
                    length += 1 + usize::from(head);
                    if length > LONGEST_NAME {
                        return Err(Fault::Malformed);
                    }
                    let label = self.span.data.get(at + 1..to).ok_or_else(|| self.span.fault_before(to))?;
                    if let Some(text) = &mut text {
                        write_label(label, text);
                    }
                    at = to;
                }
                0xc0.. => {
                    let to = usize::from(head & 0x3f) << 8 | usize::from(byte(self, at + 1)?);
                    end.get_or_insert(at + 2);
                    pointers += 1;
                    if to >= run || pointers > MOST_POINTERS {
                        return Err(Fault::Malformed);
                    }
                    (at, run) = (to, to);
                }
                _ => return Err(Fault::Malformed),
            }
        }
        if let Some(text) = text
            && text.is_empty()
        {
            text.push('.');
        }
        self.at = end.unwrap_or(at + 1);
        Ok(())
    }
}

fn write_label(label: &[u8], text: &mut String) {
    if !text.is_empty() {
        text.push('.');
    }
    // Of letters, digits and hyphens, as nearly all are.
    let is_plain = label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if let Ok(plain) = str::from_utf8(label)
        && is_plain
    {
        let from = text.len();
        text.push_str(plain);
        text[from..].make_ascii_lowercase();
        return;
    }
    for &byte in label {
        match byte {
            b'.' | b'\\' | b'"' | b'`' => text.extend(['\\', byte.into()]),
            0x21..0x7f => text.push(byte.to_ascii_lowercase().into()),
            _ => _ = write!(text, "\\{byte:03}"),
        }
    }
}

/// The name of a type of record.
pub fn kind_name(kind: u16) -> Cow<'static, str> {
    Cow::Borrowed(match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        12 => "PTR",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        33 => "SRV",
        35 => "NAPTR",
        43 => "DS",
        46 => "RRSIG",
        47 => "NSEC",
        48 => "DNSKEY",
        64 => "SVCB",
        65 => "HTTPS",
        251 => "IXFR",
        252 => "AXFR",
        255 => "ANY",
        257 => "CAA",
        // As RFC 3597, section 5, has it.
        other => return Cow::Owned(format!("TYPE{other}")),
    })
}

/// The name of a response code.
pub fn code_name(code: u16) -> Cow<'static, str> {
    Cow::Borrowed(match code {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        6 => "YXDOMAIN",
        7 => "YXRRSET",
        8 => "NXRRSET",
        9 => "NOTAUTH",
        10 => "NOTZONE",
        16 => "BADVERS",
        23 => "BADCOOKIE",
        other => return Cow::Owned(format!("RCODE{other}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer with a name that is compressed, an alias, two addresses and EDNS.
    fn answer() -> Vec<u8> {
        let mut message = vec![0x12, 0x34, 0x81, 0x80, 0, 1, 0, 3, 0, 0, 0, 1];
        message.extend_from_slice(b"\x03WwW\x07example\x03com\x00\x00\x01\x00\x01");
        // CNAME to `a.example.com`: a label and a pointer to the suffix.
        message.extend_from_slice(b"\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x3c\x00\x04\x01a\xc0\x10");
        message.extend_from_slice(b"\xc0\x2d\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01");
        message.extend_from_slice(b"\xc0\x2d\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x02");
        message.extend_from_slice(b"\x00\x00\x29\x04\xd0\x01\x00\x00\x00\x00\x00");
        message
    }

    #[test]
    fn an_answer_gives_its_question_its_addresses_and_the_whole_code() {
        let message = Message::parse(Span::whole(&answer())).unwrap();
        assert_eq!((message.id, message.is_response, message.opcode, message.truncated), (0x1234, true, 0, false));
        assert_eq!(message.questions, [Question { name: "www.example.com".into(), kind: kind::A }]);
        assert_eq!(message.addresses, [IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])]);
        // The upper bits are EDNS's: BADVERS.
        assert_eq!((message.answers, message.udp_size, message.code, message.rest), (3, Some(1232), 16, None));
    }

    #[test]
    fn what_the_capture_cut_off_is_no_fault_of_the_message() {
        let whole = answer();
        for cut in 0..whole.len() {
            let read = |wire: usize| Message::parse(Span { data: &whole[..cut], wire: wire as u32 });
            match (read(whole.len()), read(cut)) {
                // The question ends after 33 bytes.
                (Err(Fault::Truncated), Err(Fault::Malformed)) => assert!(cut < 33),
                (Ok(cut_off), Ok(short)) => {
                    assert!(cut >= 33);
                    assert_eq!((cut_off.rest, short.rest), (Some(Fault::Truncated), Some(Fault::Malformed)));
                }
                other => panic!("{cut}: {other:?}"),
            }
        }
    }

    #[test]
    fn pointers_lead_back_or_nowhere() {
        let question = |name: &[u8]| {
            let mut message = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            message.extend_from_slice(name);
            message.extend_from_slice(&[0, 1, 0, 1]);
            Message::parse(Span::whole(&message)).map(|m| m.questions[0].name.clone())
        };
        assert_eq!(question(b"\xc0\x0c"), Err(Fault::Malformed), "to itself");
        assert_eq!(question(b"\x01a\xc0\x0c"), Err(Fault::Malformed), "to its own beginning");
        assert_eq!(question(b"\xc0\x20"), Err(Fault::Malformed), "forwards");
        assert_eq!(question(b"\x40a\x00"), Err(Fault::Malformed), "a label of a type that is no longer used");
        assert_eq!(question(b"\x00"), Ok(".".into()));
        assert_eq!(question(b"\x05a.\x1b`\xe4\x00"), Ok("a\\.\\027\\`\\228".into()), "nothing steers a terminal");
        let long = |labels: usize| [b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(labels);
        assert!(question(&[&long(3)[..], b"\x3d", &[b'a'; 61], b"\x00"].concat()).is_ok(), "255 bytes");
        assert_eq!(question(&[&long(3)[..], b"\x3e", &[b'a'; 62], b"\x00"].concat()), Err(Fault::Malformed));
    }

    #[test]
    fn a_damaged_message_is_read_or_refused() {
        let whole = answer();
        for at in 0..whole.len() {
            for value in [0, 1, 12, 0x3f, 0x40, 0x80, 0xc0, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                if let Ok(message) = Message::parse(Span::whole(&damaged)) {
                    assert!(message.questions.len() <= MOST_NAMES && message.addresses.len() <= MOST_ADDRESSES);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes: Vec<u8>, wire: u32) {
            let _ = Message::parse(Span { data: &bytes, wire: wire.max(bytes.len() as u32) });
        }
    }
}
