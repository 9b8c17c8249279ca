//! iperf3's login: a user's name and password, sent with the parameters under the server's public
//! key.
//!
//! The text is that of iperf3 (`user: … pwd: … ts: …`), encrypted by RSA: with OAEP from version
//! 3.17 on, and with PKCS #1 v1.5 padding before. The server keeps no passwords but SHA-256 of
//! `{user}password`. It encrypts no more than this: whoever changes packets on the way has the
//! test, and whoever copies the login may use it until its timestamp is too old.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::{Instant, Nanos, Realtime};
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use rsa::pkcs1::DecodeRsaPrivateKey as _;
use rsa::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _};
use rsa::{Oaep, Pkcs1v15Encrypt, PrivateKey, PublicKey};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

/// How the text is padded before it is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Optimal asymmetric encryption padding with SHA-1 (RFC 8017, section 7.1): iperf3 from 3.17
    /// on.
    #[default]
    Oaep,
    /// PKCS #1 v1.5 (RFC 8017, section 7.2): iperf3 before 3.17, and with `--use-pkcs1-padding`. A
    /// server that takes it must not show whether a padding was right: what is encrypted could be
    /// found from that, piece by piece.
    Pkcs1,
}

/// A client's login.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
    key: PublicKey,
    padding: Padding,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).field("padding", &self.padding).finish_non_exhaustive()
    }
}

impl Login {
    /// With the server's public key, a PEM file that begins with `BEGIN PUBLIC KEY`.
    ///
    /// # Errors
    /// What is wrong with the file, or with a name or password that iperf3 cannot read: it ends
    /// both at a blank.
    pub fn load(user: &str, password: &str, key: &Path, padding: Padding) -> Result<Self, String> {
        let text = std::fs::read_to_string(key).map_err(|e| format!("{}: {e}", key.display()))?;
        let public = PublicKey::from_public_key_pem(&text).map_err(|e| {
            format!("{}: no RSA public key in PEM (`openssl rsa -pubout` writes one): {e}", key.display())
        })?;
        for (what, text) in [("a user's name", user), ("a password", password)] {
            if text.is_empty() || text.contains(char::is_whitespace) {
                return Err(format!("{what} for iperf3 has no blanks and is not empty"));
            }
        }
        let login = Self { user: user.into(), password: password.into(), key: public, padding };
        login.token(Instant::from_nanos(0)).map(drop)?;
        Ok(login)
    }

    /// What is sent, at that time.
    pub(crate) fn token(&self, now: Instant<Realtime>) -> Result<String, String> {
        let seconds = now.as_nanos() / 1_000_000_000;
        let text = format!("user: {}\npwd:  {}\nts:   {seconds}", self.user, self.password);
        let mut random = UnwrapErr(SysRng);
        let encrypted = match self.padding {
            Padding::Oaep => self.key.encrypt(&mut random, Oaep::<Sha1>::new(), text.as_bytes()),
            Padding::Pkcs1 => self.key.encrypt(&mut random, Pkcs1v15Encrypt, text.as_bytes()),
        };
        let too_long = |_| "the user's name and the password are too long for the server's key".to_owned();
        Ok(STANDARD.encode(encrypted.map_err(too_long)?))
    }
}

/// Who may log in, and the key that their logins are encrypted for.
#[derive(Clone)]
pub struct Users {
    key: Arc<PrivateKey>,
    /// Names, and SHA-256 of `{name}password`.
    known: Arc<[(String, [u8; 32])]>,
    padding: Padding,
    skew: Nanos,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

/// How far a login's time may be off the server's, unless another is asked for; iperf3's.
pub const SKEW: Nanos = Nanos::from_secs(10);

impl Users {
    /// With the private key (PEM, without a password) and the list of users: a line `NAME,SHA-256`
    /// each, in hexadecimal digits; empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// What is wrong with a file, and where.
    pub fn load(key: &Path, users: &Path, padding: Padding, skew: Nanos) -> Result<Self, String> {
        let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
        let text = read(key)?;
        let private = PrivateKey::from_pkcs8_pem(&text)
            .ok()
            .or_else(|| PrivateKey::from_pkcs1_pem(&text).ok())
            .ok_or_else(|| format!("{}: no RSA private key in PEM without a password", key.display()))?;
        let mut known = Vec::new();
        for (number, line) in (1..).zip(read(users)?.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let row =
                line.split_once(',').and_then(|(name, hash)| Some((name.trim().to_owned(), digest(hash.trim())?)));
            known.push(row.ok_or_else(|| {
                format!(
                    "{}:{number}: a line is NAME,SHA-256 of {{NAME}}PASSWORD in 64 hexadecimal digits",
                    users.display()
                )
            })?);
        }
        if known.is_empty() {
            return Err(format!("{}: no user is in it, so no client could log in", users.display()));
        }
        Ok(Self { key: Arc::new(private), known: known.into(), padding, skew })
    }

    /// Whether a client may: what it sent is a login of a user, of about this time. Takes as long
    /// for a name that is not known as for one that is.
    pub(crate) fn admit(&self, token: &str, now: Instant<Realtime>) -> bool {
        let Some(text) = self.decrypted(token) else { return false };
        let Some((user, password, seconds)) = parts(&text) else { return false };
        let sent = Nanos::from_secs(seconds);
        let off = Nanos(now.as_nanos().abs_diff(sent.0));
        let given: [u8; 32] = Sha256::digest(format!("{{{user}}}{password}")).into();
        // Every row is looked at.
        let mut found = Choice::from(0);
        for (name, hash) in self.known.iter() {
            found |= name.as_bytes().ct_eq(user.as_bytes()) & hash.ct_eq(&given);
        }
        bool::from(found) && off.0 / 1_000_000_000 <= self.skew.0 / 1_000_000_000
    }

    fn decrypted(&self, token: &str) -> Option<String> {
        let bytes = STANDARD.decode(token).ok()?;
        let mut random = UnwrapErr(SysRng);
        let text = match self.padding {
            Padding::Oaep => self.key.decrypt_blinded(&mut random, Oaep::<Sha1>::new(), &bytes),
            Padding::Pkcs1 => self.key.decrypt_blinded(&mut random, Pkcs1v15Encrypt, &bytes),
        };
        String::from_utf8(text.ok()?).ok()
    }
}

/// 64 hexadecimal digits.
fn digest(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// User, password and seconds of a login's text.
fn parts(text: &str) -> Option<(&str, &str, u64)> {
    let mut lines = text.lines();
    let mut value = |key: &str| Some(lines.next()?.strip_prefix(key)?.trim());
    let (user, password, seconds) = (value("user:")?, value("pwd:")?, value("ts:")?);
    let seconds = seconds.parse::<u64>().ok().filter(|s| *s < u64::MAX / 1_000_000_000)?;
    Some((user, password, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A key of 1,024 bits that protects nothing: short, as each operation takes long in a debug
    /// build.
    fn key() -> (tempfile::TempDir, Users, Login) {
        use rsa::pkcs8::{EncodePrivateKey as _, EncodePublicKey as _};
        let directory = tempfile::tempdir().unwrap();
        let key = PrivateKey::new(&mut UnwrapErr(SysRng), 1_024).unwrap();
        let [private, public, users] = ["private.pem", "public.pem", "users"].map(|name| directory.path().join(name));
        std::fs::write(&private, key.to_pkcs8_pem(Default::default()).unwrap().as_bytes()).unwrap();
        std::fs::write(&public, key.to_public_key().to_public_key_pem(Default::default()).unwrap()).unwrap();
        // printf '{mario}rossi' | sha256sum, the example of iperf3's manual.
        let mario = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b";
        std::fs::write(&users, format!("# users\n\nmario,{mario}\nanna,{}\n", "0".repeat(64))).unwrap();
        let load = Users::load(&private, &users, Padding::Oaep, SKEW).unwrap();
        let login = Login::load("mario", "rossi", &public, Padding::Oaep).unwrap();
        (directory, load, login)
    }

    #[test]
    fn a_user_with_the_right_password_comes_in_for_some_seconds() {
        let (directory, users, login) = key();
        let at = |seconds: u64| Instant::from_nanos(1_700_000_000_000_000_000 + seconds * 1_000_000_000);
        let token = login.token(at(0)).unwrap();
        assert!(users.admit(&token, at(0)) && users.admit(&token, at(10)) && !users.admit(&token, at(12)));
        let other = |user: &str, password: &str| {
            let login = Login { user: user.into(), password: password.into(), ..login.clone() };
            users.admit(&login.token(at(0)).unwrap(), at(0))
        };
        assert!(!other("mario", "rossI") && !other("anna", "rossi") && !other("nobody", "rossi"));
        // The other padding is no login.
        let pkcs1 = Login { padding: Padding::Pkcs1, ..login.clone() }.token(at(0)).unwrap();
        assert!(!users.admit(&pkcs1, at(0)));
        assert!(Users { padding: Padding::Pkcs1, ..users.clone() }.admit(&pkcs1, at(0)));
        assert!(!format!("{login:?} {users:?}").contains("rossi"));
        let public = directory.path().join("public.pem");
        for (user, password) in [("a b", "x"), ("", "x"), ("a", ""), ("a", "x\ny")] {
            assert!(Login::load(user, password, &public, Padding::Oaep).is_err(), "{user:?} {password:?}");
        }
        let long = Login::load("a", &"x".repeat(200), &public, Padding::Oaep).unwrap_err();
        assert!(long.contains("too long"), "{long}");
    }

    #[test]
    fn a_wrong_file_is_named_with_its_line() {
        let (directory, _, _) = key();
        let [private, users] = ["private.pem", "users"].map(|name| directory.path().join(name));
        std::fs::write(&users, "# none\nmario,abc\n").unwrap();
        let said = Users::load(&private, &users, Padding::Oaep, SKEW).unwrap_err();
        assert!(said.contains("users:2: a line is NAME,SHA-256"), "{said}");
        let said = Users::load(&users, &users, Padding::Oaep, SKEW).unwrap_err();
        assert!(said.contains("no RSA private key"), "{said}");
    }

    proptest! {
        #[test]
        fn foreign_texts_never_panic(text in "\\PC{0,200}", bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = parts(&text);
            let _ = digest(&text);
            let _ = parts(&String::from_utf8_lossy(&bytes));
        }
    }
}
