//! Blocks of a pcapng that describe a process: Wireshark's, which packets find by the number of
//! the process, and those of macOS, which packets find by their place in the section.

use std::collections::BTreeMap;

use super::error::Problem;
use super::pcapng_option::next_option;
use super::pcapng_writer::PROCESS_INFORMATION;
use super::word;

/// The block of macOS, of a type for local use.
pub(super) const PROCESS_EVENT: u32 = 0x8000_0001;

/// How many blocks of either kind are kept.
const MOST: usize = 65_536;
/// Bytes of a name: a file's has no more.
const LONGEST_NAME: usize = 255;

const NAME: u16 = 2;
const PATH: u16 = 3;
const START: u16 = 9;

/// The processes that a capture has described so far.
#[derive(Debug, Default)]
pub(crate) struct ProcessBlocks {
    /// How many sections have begun. What one says holds within it: the next may be of another
    /// host.
    section: u32,
    /// Wireshark's, by section and number of the process, in the order of the file.
    numbered: BTreeMap<(u32, u32), Vec<Numbered>>,
    /// How many those are.
    kept: usize,
    /// Those of macOS in this section: number and name.
    placed: Vec<(u32, String)>,
    /// A block of this section may be lost, so later ones are not at the place that is counted.
    broken: bool,
}

/// A process by its number, which another may have had before it.
#[derive(Debug)]
struct Numbered {
    name: String,
    /// When it began, in nanoseconds of Unix time.
    since: Option<u64>,
}

impl ProcessBlocks {
    /// A section begins.
    pub(super) fn begin_section(&mut self) {
        self.section += 1;
        self.placed.clear();
        self.broken = false;
    }

    /// Bytes of this section were skipped.
    pub(super) fn skipped_bytes(&mut self) {
        self.broken = true;
    }

    /// The section that is being read.
    pub fn section(&self) -> u32 {
        self.section
    }

    /// Takes a custom block of Wireshark; entries that are no process are skipped. The entry is
    /// least significant byte first, whatever the section is.
    ///
    /// # Errors
    /// Where it contradicts itself.
    pub(super) fn add_numbered(&mut self, block: &[u8]) -> Result<(), Problem> {
        let custom = block.get(12..block.len() - 4).unwrap_or_default();
        let Some((head, rest)) = custom.split_at_checked(8) else { return Err(Problem::BadRecord) };
        if word(head, 0, false) != PROCESS_INFORMATION {
            return Ok(());
        }
        let entry = rest.get(..word(head, 4, false) as usize);
        let (pid, options) = entry.and_then(|entry| entry.split_at_checked(4)).ok_or(Problem::BadRecord)?;
        let (mut named, mut path, mut since, mut options) = (String::new(), String::new(), None, options);
        let end = loop {
            match next_option(&mut options, false) {
                Ok(Some((NAME, value))) => named = name(value),
                Ok(Some((PATH, value))) => path = name(last_part(value)),
                Ok(Some((START, value))) => since = value.try_into().ok().map(u64::from_le_bytes),
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(problem) => break Err(problem),
            }
        };
        if self.kept < MOST {
            self.kept += 1;
            let name = if named.is_empty() { path } else { named };
            self.numbered.entry((self.section, word(pid, 0, false))).or_default().push(Numbered { name, since });
        }
        end
    }

    /// Takes a process event block of macOS. One that is damaged has its place all the same.
    ///
    /// # Errors
    /// Where it contradicts itself.
    pub(super) fn add_placed(&mut self, block: &[u8], big_endian: bool) -> Result<(), Problem> {
        let (mut named, mut options) = (String::new(), &block[12..block.len() - 4]);
        let end = loop {
            match next_option(&mut options, big_endian) {
                Ok(Some((NAME, value))) => named = name(value),
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(problem) => break Err(problem),
            }
        };
        if self.placed.len() < MOST && !self.broken {
            self.placed.push((word(block, 8, big_endian), named));
        }
        end
    }

    /// The processes that Wireshark's blocks describe: number, name, and start in nanoseconds of
    /// Unix time. None where there are several sections, of which each may be of another host.
    pub fn all(&self) -> Vec<(u32, String, Option<u64>)> {
        let one = |(number, all): (&(u32, u32), &Vec<Numbered>)| {
            let pid = number.1;
            all.iter().map(move |process| (pid, process.name.clone(), process.since)).collect::<Vec<_>>()
        };
        if self.section > 1 { Vec::new() } else { self.numbered.iter().flat_map(one).collect() }
    }

    /// The number and the name of the process whose block is at this place of the section, from 0.
    pub fn at_place(&self, place: u32) -> Option<(u32, &str)> {
        let (pid, name) = self.placed.get(place as usize)?;
        // macOS has −1 for a process that it does not know.
        (!matches!(*pid, 0 | u32::MAX)).then_some((*pid, name))
    }

    /// The name of the process that had this number in a section at a moment, nanoseconds of Unix
    /// time; empty where none is known.
    pub fn name(&self, section: u32, pid: u32, at: u64) -> &str {
        let Some(all) = self.numbered.get(&(section, pid)) else { return "" };
        let begun = all.iter().filter(|process| process.since.is_some_and(|since| since <= at));
        let found = begun.max_by_key(|process| process.since);
        // The start of a process is known to a clock tick only, so one may seem to begin after its
        // first packet.
        let found = found.or_else(|| all.iter().rfind(|process| process.since.is_none()));
        found.or_else(|| all.iter().min_by_key(|process| process.since)).map_or("", |process| &process.name)
    }
}

/// A name as it is kept.
pub(super) fn name(value: &[u8]) -> String {
    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text.get(..LONGEST_NAME + 1).unwrap_or(text));
    let mut end = text.len().min(LONGEST_NAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The last part of a path, which is one of Windows where it has no slash but backslashes.
pub(super) fn last_part(path: &[u8]) -> &[u8] {
    let slash = if path.contains(&b'/') { b'/' } else { b'\\' };
    path.rsplit(|byte| *byte == slash).find(|part| !part.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_wireshark(entry: &[u8]) -> Vec<u8> {
        let length = (entry.len() as u32).to_le_bytes();
        let mut block = [&[0; 12][..], &PROCESS_INFORMATION.to_le_bytes(), &length, entry].concat();
        block.resize(block.len().next_multiple_of(4) + 4, 0);
        block
    }

    fn entry(pid: u32, name: &str, since: Option<u64>) -> Vec<u8> {
        let mut entry = pid.to_le_bytes().to_vec();
        super::super::pcapng_option::put_option(&mut entry, NAME, name.as_bytes());
        if let Some(since) = since {
            super::super::pcapng_option::put_option(&mut entry, START, &since.to_le_bytes());
        }
        entry
    }

    #[test]
    fn a_number_is_that_of_the_process_that_had_begun_last() {
        let mut blocks = ProcessBlocks::default();
        for (name, since) in [("second", Some(20)), ("first", Some(10)), ("of no time", None)] {
            blocks.add_numbered(&of_wireshark(&entry(7, name, since))).unwrap();
        }
        for (name, since) in [("late", Some(20)), ("early", Some(10))] {
            blocks.add_numbered(&of_wireshark(&entry(8, name, since))).unwrap();
        }
        for (name, since) in [("old", None), ("new", None)] {
            blocks.add_numbered(&of_wireshark(&entry(9, name, since))).unwrap();
        }
        let names = |pid: u32| [5, 10, 19, 20, u64::MAX].map(|at| blocks.name(0, pid, at));
        assert_eq!(names(7), ["of no time", "first", "first", "second", "second"]);
        assert_eq!(names(8), ["early", "early", "early", "late", "late"]);
        assert_eq!(names(9), ["new"; 5]);
        assert_eq!((names(10), blocks.name(1, 7, 10)), ([""; 5], ""));
    }

    #[test]
    fn a_block_cut_anywhere_says_so_or_names_nobody_else() {
        let whole = entry(7, "nginx", Some(10));
        for end in 0..whole.len() {
            let mut blocks = ProcessBlocks::default();
            let said = blocks.add_numbered(&of_wireshark(&whole[..end]));
            assert!(end >= 4 || said == Err(Problem::BadRecord), "{end}: {said:?}");
            assert!(["", "nginx"].contains(&blocks.name(0, 7, 10)));
        }
        // A length beyond the block.
        let mut block = of_wireshark(&whole);
        block[16] = 0xff;
        assert_eq!(ProcessBlocks::default().add_numbered(&block), Err(Problem::BadRecord));
        assert_eq!(ProcessBlocks::default().add_numbered(&[0; 16]), Err(Problem::BadRecord));
    }

    #[test]
    fn names_are_cut_at_a_character_and_paths_have_a_last_part() {
        assert_eq!(name("é".repeat(200).as_bytes()), "é".repeat(127));
        assert_eq!(name(b"launchd\0\0"), "launchd");
        let parts = ["/usr/bin/curl", r"C:\Windows\svchost.exe", "/opt/a\\b", "curl", "/opt/app/", "", "/"];
        let last = parts.map(|path| String::from_utf8_lossy(last_part(path.as_bytes())).into_owned());
        assert_eq!(last, ["curl", "svchost.exe", "a\\b", "curl", "app", "", ""]);
    }

    #[test]
    fn places_after_damage_are_not_believed() {
        let mut blocks = ProcessBlocks::default();
        let block = |pid: u32| [&[0; 8][..], &pid.to_be_bytes(), &[0, 2, 0, 1], b"a\0\0\0", &[0; 4]].concat();
        blocks.add_placed(&block(5), true).unwrap();
        blocks.skipped_bytes();
        blocks.add_placed(&block(6), true).unwrap();
        assert_eq!((blocks.at_place(0), blocks.at_place(1)), (Some((5, "a")), None));
        blocks.begin_section();
        blocks.add_placed(&block(6), true).unwrap();
        assert_eq!((blocks.at_place(0), blocks.at_place(1)), (Some((6, "a")), None));
    }
}
