//! The options of iperf3's login, as its client and as its server have them.

use std::path::PathBuf;

use quantity::parse;
use record::Nanos;
use traffic::iperf3::{Login, Padding, SKEW, Users};

use crate::exit::BadInput;
use crate::options::heading;

/// Where iperf3 reads the password from.
const PASSWORD: &str = "IPERF3_PASSWORD";

fn padding(pkcs1: bool) -> Padding {
    if pkcs1 { Padding::Pkcs1 } else { Padding::Oaep }
}

/// The login of a client.
#[derive(clap::Args)]
#[command(next_help_heading = heading::SECURITY)]
pub struct AsUser {
    /// Log in to an iperf3 server as this user; IPERF3_PASSWORD holds the password
    #[arg(long, value_name = "NAME", requires = "rsa_public_key_path")]
    username: Option<String>,
    /// The public key of the server, which encrypts the login: a PEM file
    #[arg(long, value_name = "FILE", requires = "username")]
    rsa_public_key_path: Option<PathBuf>,
    /// Encrypt it as iperf3 before 3.17 does
    #[arg(long, requires = "username")]
    use_pkcs1_padding: bool,
}

impl AsUser {
    /// The login, where one is asked for.
    pub fn login(&self) -> Result<Option<Login>, BadInput> {
        let (Some(user), Some(key)) = (&self.username, &self.rsa_public_key_path) else { return Ok(None) };
        let password = std::env::var(PASSWORD)
            .map_err(|_| BadInput(format!("--username needs the password in the environment: {PASSWORD}")))?;
        Login::load(user, &password, key, padding(self.use_pkcs1_padding)).map(Some).map_err(BadInput)
    }
}

/// The logins that a server takes.
#[derive(clap::Args)]
#[command(next_help_heading = heading::SECURITY)]
pub struct OfUsers {
    /// Accept logins of iperf3 clients, encrypted for this private key: a PEM file without a
    /// password
    #[arg(long, value_name = "FILE", requires = "authorized_users_path")]
    rsa_private_key_path: Option<PathBuf>,
    /// The users who may log in: a file with a line NAME,SHA-256 for each, the hash of
    /// {NAME}PASSWORD
    #[arg(long, value_name = "FILE", requires = "rsa_private_key_path")]
    authorized_users_path: Option<PathBuf>,
    /// How far the clock of a client that logs in may differ
    #[arg(long, value_name = "TIME", value_parser = parse::duration_above_zero, default_value_t = SKEW, requires = "rsa_private_key_path")]
    time_skew_threshold: Nanos,
    /// Take logins as iperf3 before 3.17 encrypts them, and no others
    #[arg(long, requires = "rsa_private_key_path")]
    use_pkcs1_padding: bool,
}

impl OfUsers {
    /// The users, where logins are taken.
    pub fn users(&self) -> Result<Option<Users>, BadInput> {
        let (Some(key), Some(users)) = (&self.rsa_private_key_path, &self.authorized_users_path) else {
            return Ok(None);
        };
        let padding = padding(self.use_pkcs1_padding);
        Users::load(key, users, padding, self.time_skew_threshold).map(Some).map_err(BadInput)
    }
}
