//! The command line of `wirelapse-query`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use record::Nanos;

use crate::Format;
use crate::weeks::Ask;

#[cfg(feature = "cluster")]
macro_rules! cluster {
    () => {
        ", clusters (Ballista)"
    };
}
#[cfg(not(feature = "cluster"))]
macro_rules! cluster {
    () => {
        ""
    };
}

/// The version and what it was built from.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WIRELAPSE_BUILT"), ")");

/// The same, with what the program can do.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("WIRELAPSE_BUILT"),
    ")\nfor ",
    env!("WIRELAPSE_TARGET"),
    "\nwith SQL (DataFusion), Parquet, S3",
    cluster!()
);

/// SQL over runs: one run, or all runs of a fleet
///
/// Each table holds the rows of all runs below the place that --runs names, with host, run and time
/// on every row: see --list and --schema. A connection_id is unique within a host and boot: join by
/// host, run and connection_id. Without SQL there is a prompt.
#[derive(Parser)]
#[command(name = "wirelapse-query", version = VERSION, long_version = LONG_VERSION, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Anything but a query
    #[command(subcommand)]
    pub command: Option<Command>,
    /// A query
    #[command(flatten)]
    pub query: Query,
}

/// A query.
#[derive(clap::Args)]
pub struct Query {
    /// The query; without one there is a prompt
    #[arg(value_name = "SQL", conflicts_with_all = ["named", "list", "schema"])]
    pub sql: Option<String>,
    /// Where the runs are: a directory, or s3://BUCKET/PREFIX with the credentials of the
    /// environment
    #[arg(long, value_name = "DIR|URL", default_value = ".")]
    pub runs: String,
    /// A query by its name: see --list
    #[arg(long, value_name = "NAME", conflicts_with_all = ["list", "schema"])]
    pub named: Option<String>,
    /// List the tables, views and named queries
    #[arg(long, conflicts_with = "schema")]
    pub list: bool,
    /// Show the columns of this table or view, or of all
    #[arg(long, value_name = "TABLE", num_args = 0..=1)]
    pub schema: Option<Option<String>>,
    /// Show the plan of the query, and how much it would read
    #[arg(long)]
    pub explain: bool,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write comma-separated values, as --format csv does
    #[arg(long, conflicts_with_all = ["format", "explain"])]
    pub csv: bool,
    /// Write the first 1,000 rows to this file, as a page that needs no network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "csv", "explain", "list", "schema"])]
    pub html: Option<PathBuf>,
    /// Overwrite the file of --html if it exists
    #[arg(long, requires = "html")]
    pub force: bool,
    /// Draw a bar for each row, by the last column of numbers
    #[arg(long, conflicts_with_all = ["explain", "csv"])]
    pub plot: bool,
    /// Memory that a query may use before it spills to disk
    #[arg(long, value_name = "SIZE", value_parser = quantity::parse::bytes, default_value = "4GiB")]
    pub memory: u64,
    /// Compute `hours` from the runs themselves, without the roll-up in the user's cache directory
    #[arg(long)]
    pub fresh: bool,
    /// How many partitions a query is divided into [default: one per CPU, or 16 on a cluster]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub partitions: Option<u16>,
    /// Run the query on a cluster: the address of its scheduler (port 50050 by default), whose
    /// executors must see the runs at the same place
    #[arg(long, value_name = "HOST[:PORT]", value_parser = scheduler)]
    pub scheduler: Option<String>,
    /// How long to wait for the scheduler and an executor
    #[arg(long, value_name = "TIME", value_parser = quantity::parse::duration_above_zero, default_value = "30s")]
    pub wait: Nanos,
}

impl Query {
    /// Whether there is a prompt.
    pub fn prompts(&self) -> bool {
        self.sql.is_none() && self.named.is_none() && !self.list && self.schema.is_none()
    }
}

/// A scheduler's address with its port.
fn scheduler(text: &str) -> Result<String, quantity::Wrong> {
    let address = quantity::parse::address(text)?;
    Ok(quantity::Address { port: address.port.or(Some(50050)), ..address }.to_string())
}

/// Anything but a query.
#[derive(Subcommand)]
pub enum Command {
    /// A server
    #[command(flatten)]
    Server(Server),
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// Write the rows that `wirelapse report --runs` compares, a JSON object a line
    #[command(hide = true)]
    Weeks(Ask),
}

/// A server of a cluster. A cluster has no authentication: restrict who reaches its ports.
#[derive(Subcommand)]
pub enum Server {
    /// Divides queries among executors
    Scheduler {
        /// Where to listen
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
        listen: SocketAddr,
    },
    /// Runs the tasks that a scheduler assigns
    Executor {
        /// The scheduler (port 50050 by default)
        #[arg(long, value_name = "HOST[:PORT]", value_parser = scheduler, default_value = "127.0.0.1:50050")]
        scheduler: String,
        /// Where to listen; the port after it is used too
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051")]
        listen: SocketAddr,
        /// The name or address by which others reach this machine
        #[arg(long, value_name = "HOST")]
        advertise: Option<String>,
        /// Tasks at a time [default: one per CPU]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        tasks: Option<u16>,
        /// Memory for all tasks before they spill to disk
        #[arg(long, value_name = "SIZE", value_parser = quantity::parse::bytes, default_value = "4GiB")]
        memory: u64,
        /// Where to keep what other executors fetch
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
        /// How long to wait for the scheduler
        #[arg(long, value_name = "TIME", value_parser = quantity::parse::duration_above_zero, default_value = "30s")]
        wait: Nanos,
    },
}
