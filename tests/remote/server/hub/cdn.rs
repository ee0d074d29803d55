//! The second port: large files at addresses that are signed, and expire.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use super::super::encoding::{encoded_path, percent_encoded, sha256};
use super::super::message::{Request, Response};
use super::super::mischief::Mischief;
use super::super::ranges::Served;
use super::Behaviour;
use super::repository::File;

/// What was signed, by signature.
pub(super) struct Cdn {
    url: String,
    lifetime: Duration,
    uses: u32,
    compress: bool,
    pub(super) mischief: Mischief,
    signed: Mutex<HashMap<String, Signed>>,
}

/// An address that was given out.
struct Signed {
    path: String,
    served: Served,
    file_name: String,
    until: Instant,
    uses_left: u32,
}

impl Cdn {
    pub(super) fn new(url: String, behaviour: &Behaviour) -> Self {
        Self {
            url,
            lifetime: behaviour.signed_for,
            uses: behaviour.signed_uses,
            compress: behaviour.compress,
            mischief: Mischief::default(),
            signed: Mutex::default(),
        }
    }

    /// A new address of a file's content, as it is now.
    pub(super) fn sign(&self, repository: &str, file: &File) -> String {
        let mut signed = self.signed.lock().expect("nobody panics while it is held");
        let path = format!("/repos/{}/{}", encoded_path(repository), file.etag());
        let signature = sha256(format!("{} {path} {}", self.url, signed.len()).as_bytes());
        let file_name = file.path.rsplit('/').next().unwrap_or("").to_owned();
        let expires = SystemTime::now() + self.lifetime;
        let expires = expires.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let disposition = format!("attachment; filename=\"{file_name}\"");
        let address = format!(
            "{}{path}?response-content-disposition={}&Expires={expires}&Key-Pair-Id=K0&Signature={signature}",
            self.url,
            percent_encoded(&disposition),
        );
        let entry = Signed {
            path,
            served: Served {
                content_type: "binary/octet-stream",
                compress: self.compress,
                ..Served::tagged(file.content.clone(), &file.etag())
            },
            file_name,
            until: Instant::now() + self.lifetime,
            uses_left: self.uses,
        };
        signed.insert(signature, entry);
        address
    }

    pub(super) fn expire_all(&self) {
        let mut signed = self.signed.lock().expect("nobody panics while it is held");
        signed.values_mut().for_each(|entry| entry.uses_left = 0);
    }

    pub(super) fn answer(&self, request: &Request) -> Response {
        if request.header("authorization").is_some() {
            return refused(400, "InvalidArgument", "Only one auth mechanism allowed");
        }
        let mut signed = self.signed.lock().expect("nobody panics while it is held");
        let signature = request.query_value("Signature").unwrap_or_default();
        let Some(entry) = signed.get_mut(&signature).filter(|entry| entry.path == request.path) else {
            return refused(403, "SignatureDoesNotMatch", "The signature is not that of this address");
        };
        if entry.uses_left == 0 || Instant::now() >= entry.until {
            return refused(403, "AccessDenied", "Request has expired");
        }
        entry.uses_left -= 1;
        self.mischief
            .answer(request, &entry.served)
            .header("Content-Disposition", format!("attachment; filename=\"{}\"", entry.file_name))
    }
}

/// As object stores refuse.
fn refused(status: u16, code: &str, message: &str) -> Response {
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    );
    Response::text(status, &xml).replacing("Content-Type", "application/xml")
}
