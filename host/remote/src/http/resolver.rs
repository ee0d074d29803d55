//! Resolves names to addresses and refuses those that no redirect may lead to. What is judged here is what is connected
//! to: the connection gets these addresses and asks no name server again.

use super::guard::Reach;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Hosts that the user named, and what they were found to reach.
#[derive(Debug, Default)]
struct Allowed {
    hosts: HashSet<String>,
    reaches: HashSet<Reach>,
}

/// A resolver that judges: hosts that the user named may be anywhere, all others only on the internet or where a named one
/// was.
#[derive(Debug, Default)]
pub struct JudgingResolver {
    system: DefaultResolver,
    allowed: Mutex<Allowed>,
}

impl JudgingResolver {
    /// Allows a host wherever it is, and others where it is: the user named it.
    pub fn allow(&self, host: &str) {
        self.allowed.lock().unwrap_or_else(PoisonError::into_inner).hosts.insert(host.to_ascii_lowercase());
    }
}

impl JudgingResolver {
    /// Judges a host that is an address: behind a proxy, which resolves names itself, nothing else can be judged.
    ///
    /// # Errors
    /// The refusal.
    pub fn judge_literal(&self, host: &str, address: IpAddr) -> Result<(), Refused> {
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        let reach = Reach::of(address);
        if allowed.hosts.contains(&host.to_ascii_lowercase()) {
            allowed.reaches.insert(reach);
        }
        match reach == Reach::Public || allowed.reaches.contains(&reach) {
            true => Ok(()),
            false => Err(Refused { host: host.to_owned(), reach }),
        }
    }
}

impl Resolver for JudgingResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.system.resolve(uri, config, timeout)?;
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        // The user's environment named the proxy.
        let is_proxy = config.proxy().is_some_and(|proxy| {
            proxy.host().eq_ignore_ascii_case(&host) && uri.port_u16().is_none_or(|port| port == proxy.port())
        });
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if allowed.hosts.contains(&host) {
            // A host that is on the internet as well names no other network.
            let reaches = || found.iter().map(|address| Reach::of(address.ip()));
            if reaches().all(|reach| reach != Reach::Public) {
                allowed.reaches.extend(reaches());
            }
            return Ok(found);
        }
        let mut kept = self.system.empty();
        let mut refused = None;
        for address in found.iter() {
            let reach = Reach::of(address.ip());
            if is_proxy || reach == Reach::Public || allowed.reaches.contains(&reach) {
                kept.push(*address);
            } else {
                refused = Some(Refused { host: host.clone(), reach });
            }
        }
        match refused {
            Some(refused) if kept.is_empty() => {
                Err(ureq::Error::Io(io::Error::new(io::ErrorKind::PermissionDenied, refused)))
            }
            _ => Ok(kept),
        }
    }
}

/// The refusal of an address.
#[derive(Debug)]
pub struct Refused {
    /// The host that led there.
    pub host: String,
    /// Network that it led to.
    pub reach: Reach,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is a {} address", self.host, self.reach.word())
    }
}

impl std::error::Error for Refused {}
