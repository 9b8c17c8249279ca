//! Letters for plots.

use report::plot::image::Letters;

use crate::exit::BadInput;

/// Where common systems keep a font that letters can be drawn with.
const FONTS: [&str; 3] = [
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
];

/// Letters in the first of these fonts that is here.
pub fn letters() -> anyhow::Result<Letters> {
    let font = FONTS.iter().find_map(|f| std::fs::read(f).ok());
    let font = font.ok_or_else(|| BadInput("a plot needs the font DejaVu Sans (package fonts-dejavu-core)".into()))?;
    Ok(Letters::new(font)?)
}
