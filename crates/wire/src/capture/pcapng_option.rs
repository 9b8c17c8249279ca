//! The options of pcapng's blocks: a code, a length and a value each, padded to four bytes.

use super::error::Problem;

/// Takes the next option off `rest`: `None` at the end of the list.
///
/// # Errors
/// Where it goes beyond `rest`.
pub(super) fn next_option<'a>(rest: &mut &'a [u8], big_endian: bool) -> Result<Option<(u16, &'a [u8])>, Problem> {
    let Some((head, after)) = rest.split_first_chunk::<4>() else {
        return if rest.is_empty() { Ok(None) } else { Err(Problem::BadOption) };
    };
    let [a, b, c, d] = *head;
    let read = if big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
    let (code, length) = (read([a, b]), usize::from(read([c, d])));
    if code == 0 {
        *rest = &[];
        return Ok(None);
    }
    let value = after.get(..length).ok_or(Problem::BadOption)?;
    *rest = after.get(length.next_multiple_of(4)..).unwrap_or_default();
    Ok(Some((code, value)))
}

/// Adds an option, least significant byte first. A value longer than the format's 65,535 bytes is
/// cut at a character.
pub(super) fn put_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let mut length = value.len().min(usize::from(u16::MAX));
    // Bytes of the form 10xxxxxx continue a character of UTF-8.
    while length < value.len() && length > 0 && value[length] & 0xc0 == 0x80 {
        length -= 1;
    }
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(length as u16).to_le_bytes());
    out.extend_from_slice(&value[..length]);
    out.resize(out.len() + (length.next_multiple_of(4) - length), 0);
}
