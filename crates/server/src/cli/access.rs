//! While a server runs on a store in a file, commands on its machine need no token.
//!
//! The server makes a token that works for as long as it runs, and writes it, with its address, to a file
//! in its data directory that only the owner can read. A user who can read that directory has the store and
//! its key anyway. So an operator who has lost the admin token makes another one with `redial token
//! create`.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::token::url_at;
use crate::config::Configuration;
use crate::dice;

const FILE: &str = "redial.access";
/// What the owner may do with it, and nobody else.
const OWNER_ONLY: u32 = 0o600;

/// The file, which goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Access {
    path: PathBuf,
    /// Its device and its number there: what is at the path later may be another server's.
    file: (u64, u64),
}

/// What is in it.
#[derive(Serialize, Deserialize)]
pub(super) struct Local {
    /// Where the server is.
    pub(super) server: String,
    /// What opens it.
    pub(super) token: String,
}

impl Drop for Access {
    fn drop(&mut self) {
        let found = fs::metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.file) {
            // What it opens has ended with the server.
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// Lets commands on this machine in. Returns the file, and the hash of the token that is in it; neither
/// if it cannot be written, which a server can do without.
pub(super) fn grant(
    configuration: &Configuration,
    address: SocketAddr,
) -> (Option<Access>, Option<[u8; 32]>) {
    if configuration.database.is_some() {
        return (None, None);
    }
    let secret: [u8; 32] = dice::unguessable();
    let token: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = Sha256::digest(token.as_bytes()).into();
    let path = configuration.data.join(FILE);
    let written =
        url_at(address).and_then(|server| write(path, &Local { server: server.into(), token }));
    match written {
        Ok(access) => (Some(access), Some(hash)),
        Err(error) => {
            tracing::warn!("commands on this machine need a token: {error:#}");
            (None, None)
        }
    }
}

/// Writes it as a whole: a command never reads half of it.
fn write(path: PathBuf, local: &Local) -> anyhow::Result<Access> {
    let part = path.with_extension("access.part");
    let failed = || format!("{} cannot be written", path.display());
    // One that a killed server has left may have another mode by now.
    if let Err(error) = fs::remove_file(&part)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error).with_context(failed);
    }
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create_new(true).mode(OWNER_ONLY).open(&part).with_context(failed)?;
    let text = serde_json::to_string(local)?;
    file.write_all(text.as_bytes()).and_then(|()| fs::rename(&part, &path)).with_context(failed)?;
    let written = file.metadata().with_context(failed)?;
    Ok(Access { path, file: (written.dev(), written.ino()) })
}

/// Reads it, if a server has left one there.
///
/// # Errors
/// If it is there and cannot be read; the text says what to do.
pub(super) fn read(data: &Path) -> anyhow::Result<Option<Local>> {
    let path = data.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| {
                format!(
                    "{} cannot be read; run this as the user who runs the server, or give --token",
                    path.display()
                )
            });
        }
    };
    let local = serde_json::from_str(&text);
    local.map(Some).with_context(|| {
        format!(
            "{} is not what a server writes; restart the server, or give --token",
            path.display()
        )
    })
}
