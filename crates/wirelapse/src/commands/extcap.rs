//! `wirelapse extcap`: the traced programs among the interfaces of Wireshark.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::criteria::Criteria;
use crate::exit::BadInput;
use crate::options::heading;
use crate::output;

/// Capture interface of Wireshark: packets of traced programs, live (Wireshark calls this itself)
///
/// Wireshark and tshark find the interface "wirelapse" where the packages have installed the
/// program `wirelapse` in their folder for extcap.
#[derive(clap::Args)]
#[command(next_help_heading = "Protocol of Wireshark")]
pub struct Args {
    /// List the interfaces
    #[arg(long, group = "asks")]
    extcap_interfaces: bool,
    /// List the link types of the interface
    #[arg(long, group = "asks", requires = "extcap_interface")]
    extcap_dlts: bool,
    /// List the options of the interface, for a dialog
    #[arg(long, group = "asks", requires = "extcap_interface")]
    extcap_config: bool,
    /// Write packets to --fifo until it is closed
    #[arg(long, group = "asks", requires_all = ["extcap_interface", "fifo"])]
    capture: bool,
    /// The interface
    #[arg(long, value_name = "NAME")]
    extcap_interface: Option<String>,
    /// The version of Wireshark
    #[arg(long, value_name = "VERSION")]
    extcap_version: Option<String>,
    /// The pipe for packets
    #[arg(long, value_name = "FILE")]
    fifo: Option<PathBuf>,
    #[command(flatten)]
    criteria: Criteria,
    /// How many bytes of payload to copy of each packet
    #[arg(long, value_name = "BYTES", default_value_t = 0, help_heading = heading::WHAT)]
    snap: u16,
    /// How the right to trace is got
    #[arg(long, value_enum, default_value_t = By::Own, help_heading = heading::WHAT)]
    rights: By,
}

/// `--rights`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Wireshark has it: it runs as root
    Own,
    /// By sudo, without a question
    Sudo,
    /// By pkexec, which asks in a window
    Pkexec,
}

/// What the interface is called.
const INTERFACE: &str = "wirelapse";

/// Its options in the dialog: what Wireshark calls us with, what people see, and its type with
/// whatever belongs to that.
const OPTIONS: [(&str, &str, &str, &str); 9] = [
    ("--unit", "systemd unit", "{type=string}", "nginx, or app-* for several"),
    ("--comm", "Program", "{type=string}", "the name that ps -o comm shows"),
    ("--pid", "Process", "{type=unsigned}", "its number; its children are traced too"),
    ("--container", "Container", "{type=string}", "name or id of a container or pod"),
    ("--cgroup", "Cgroup", "{type=string}", "a folder below /sys/fs/cgroup"),
    ("--port", "Ports", "{type=string}", "443 or 80,443,8000-8100, local or remote"),
    ("--peer", "Peer", "{type=string}", "an address, a network or the name of a host"),
    ("--snap", "Bytes of payload", "{type=unsigned}{range=0,65535}{default=0}", "0 copies headers alone"),
    (
        "--rights",
        "Right to trace",
        "{type=selector}",
        "tracing takes root, or the capabilities that docs/privileges.md names",
    ),
];

/// What `--rights` can be there.
const RIGHTS: [(&str, &str); 3] =
    [("own", "Wireshark has it"), ("sudo", "sudo, without a question"), ("pkexec", "pkexec, which asks")];

pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(other) = args.extcap_interface.as_deref().filter(|name| *name != INTERFACE) {
        return Err(BadInput(format!("there is no interface {other:?}: the one of this program is {INTERFACE}")).into());
    }
    let text = match args {
        Args { extcap_interfaces: true, .. } => interfaces(),
        Args { extcap_dlts: true, .. } => "dlt {number=101}{name=RAW}{display=Raw IP}\n".to_owned(),
        Args { extcap_config: true, .. } => options(),
        Args { capture: true, fifo: Some(fifo), .. } => return capture(args, fifo),
        _ => {
            let text = "Wireshark calls this command: start Wireshark, and choose \"Wirelapse: traced programs\" among its interfaces";
            return Err(BadInput(text.into()).into());
        }
    };
    Ok(output::stdout().write_all(text.as_bytes())?)
}

fn interfaces() -> String {
    format!(
        "extcap {{version={}}}{{display=Wirelapse}}\ninterface {{value={INTERFACE}}}{{display=Wirelapse: traced programs}}\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn options() -> String {
    let line = |(number, (call, display, kind, tooltip)): (usize, &(&str, &str, &str, &str))| {
        format!("arg {{number={number}}}{{call={call}}}{{display={display}}}{kind}{{tooltip={tooltip}}}\n")
    };
    let last = OPTIONS.len() - 1;
    let values = RIGHTS.into_iter().enumerate().map(|(at, (value, display))| {
        format!("value {{arg={last}}}{{value={value}}}{{display={display}}}{{default={}}}\n", at == 0)
    });
    OPTIONS.iter().enumerate().map(line).chain(values).collect()
}

/// Becomes `wirelapse trace`, which writes into the pipe. What it says on standard error Wireshark
/// shows as an error.
fn capture(args: &Args, fifo: &Path) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut command = match args.rights {
        By::Own => Command::new(&own),
        By::Sudo => under("sudo", &["-n".into(), "--".into(), own.into()]),
        By::Pkexec => under("pkexec", &[own.into()]),
    };
    command.arg("trace").args(["--quiet", "--packets", "--no-live", "--snap"]).arg(args.snap.to_string());
    match args.criteria.is_empty() {
        true => command.arg("--all"),
        false => command.args(args.criteria.options()),
    };
    command.arg("--write").arg(fifo).stdin(Stdio::null()).stdout(Stdio::null());
    let name = command.get_program().to_owned();
    Err(command.exec()).with_context(|| format!("cannot run {}", name.display()))
}

fn under(program: &str, words: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dialog_has_options_that_this_command_takes() {
        let text = options();
        let command = <Args as clap::Args>::augment_args(clap::Command::new("extcap"));
        for (call, ..) in OPTIONS {
            assert!(command.get_arguments().any(|arg| arg.get_long() == call.strip_prefix("--")), "{call}");
            assert!(text.contains(&format!("{{call={call}}}")), "{text}");
        }
        let rights = <By as clap::ValueEnum>::value_variants();
        let words = rights.iter().map(|by| clap::ValueEnum::to_possible_value(by).unwrap().get_name().to_owned());
        assert!(words.eq(RIGHTS.iter().map(|(value, _)| (*value).to_owned())));
    }
}
