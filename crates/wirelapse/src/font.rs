//! Letters for plots.

use crate::exit::BadInput;

/// Where common systems keep a font that letters can be drawn with.
const FONTS: [&str; 3] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
];

/// The font's bytes.
pub fn read() -> Result<Vec<u8>, BadInput> {
    let font = FONTS.iter().find_map(|f| std::fs::read(f).ok());
    font.ok_or_else(|| BadInput("a plot needs the font DejaVu Sans (package fonts-dejavu-core)".into()))
}
