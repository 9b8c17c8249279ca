//! What the crate carries of others comes with its licence, as its makers wrote it.

/// Name 13 of a font's `name` table for Windows: its licence (OpenType 1.9, "name").
fn licence_of(font: &[u8]) -> Option<String> {
    let number = |at: usize| Some(usize::from(u16::from_be_bytes(font.get(at..at + 2)?.try_into().ok()?)));
    let long = |at: usize| Some(u32::from_be_bytes(font.get(at..at + 4)?.try_into().ok()?) as usize);
    let directory = (0..number(4)?).map(|i| 12 + 16 * i).find(|&at| font.get(at..at + 4) == Some(b"name"))?;
    let table = long(directory + 8)?;
    let strings = table + number(table + 4)?;
    let entries = (0..number(table + 2)?).map(|i| table + 6 + 12 * i);
    let entry = entries.into_iter().find(|&at| number(at) == Some(3) && number(at + 6) == Some(13))?;
    let (length, from) = (number(entry + 8)?, strings + number(entry + 10)?);
    let units = font.get(from..from + length)?.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
    char::decode_utf16(units).collect::<Result<_, _>>().ok()
}

#[test]
fn the_licence_of_the_font_is_the_one_that_the_font_holds() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let held = words(&licence_of(include_bytes!("../assets/DejaVuSans.ttf")).unwrap());
    let shipped = words(include_str!("../assets/dejavu-licence.txt"));
    assert!(held.len() > 500 && shipped.ends_with(&held), "assets/dejavu-licence.txt is not the font's");
}
