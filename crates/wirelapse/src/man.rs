//! `wirelapse man`.

use std::io::Write as _;

use clap::CommandFactory as _;

/// Print the manual page, or one of each subcommand into a folder
#[derive(clap::Args)]
pub struct Args {
    /// Write wirelapse.1 and a page for each subcommand here, instead of printing the first
    #[arg(long, value_name = "DIR")]
    into: Option<std::path::PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let command = crate::Cli::command();
    if let Some(dir) = &args.into {
        std::fs::create_dir_all(dir)?;
        clap_mangen::generate_to(command, dir)?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        std::io::stdout().write_all(&page)?;
    }
    Ok(())
}
