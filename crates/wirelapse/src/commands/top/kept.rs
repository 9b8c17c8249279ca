//! The columns that a person has chosen, kept for the next time in `top.toml` beside the file of
//! defaults.

use std::io;
use std::path::PathBuf;

use report::live::Columns;
use settings::{Value, Wrong};

/// Where they are kept: in the folder of this program's settings; `None` where there is none.
fn path() -> Option<PathBuf> {
    crate::defaults::folder().map(|folder| folder.join("top.toml"))
}

/// Those that were kept; as many as there is room for, where nobody has chosen or the file cannot
/// be read.
pub fn columns() -> Columns {
    let text = path().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    parse(&text).unwrap_or_default()
}

fn parse(text: &str) -> Result<Columns, Wrong> {
    settings::read("top.toml", text, "the file", |file| {
        let names = file.take("columns").map(Value::list_or_one).unwrap_or_default();
        let names = names.iter().map(Value::text).collect::<Result<Vec<_>, _>>()?;
        Ok(Columns::named(names.iter().map(String::as_str)))
    })
}

/// Keeps them.
///
/// # Errors
/// Where the file cannot be written.
pub fn keep(names: Option<&[String]>) -> io::Result<()> {
    let path = path().ok_or_else(|| io::Error::other("there is no folder for settings: HOME is not set"))?;
    let Some(names) = names else {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, written(names))
}

fn written(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("# The columns of `wirelapse top`, as its key c has set them.\ncolumns = [{}]\n", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back_and_nonsense_is_as_if_nothing_were() {
        let names = ["rtt".to_owned(), "why slow".to_owned()];
        assert_eq!(parse(&written(&names)).unwrap().names().unwrap(), ["rtt", "why slow"]);
        for text in ["", "columns = []", "columns = 3", "columns = [\"nothing\"]"] {
            assert_eq!(parse(text).unwrap(), Columns::default(), "{text}");
        }
        assert!(parse("x").is_err());
    }
}
