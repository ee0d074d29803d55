//! Certificates for servers of this room, good and bad, from an authority that is made anew each time.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What a server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// For `localhost`, 127.0.0.1 and `::1`, valid for years.
    Good,
    /// The same, until 2001.
    Expired,
    /// The same, from 2099 on.
    NotYet,
    /// For `elsewhere.example` alone.
    WrongName,
    /// The same as a good one, signed by itself.
    SelfSigned,
}

/// An authority that signs certificates. A client that trusts it is told so by a file, and only so: a certificate of
/// another authority has an unknown issuer.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new one, which nobody trusts yet.
    pub fn new() -> Self {
        let mut params = params(&[], "Authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("keys can be made");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("the certificate is well-formed");
        Self { issuer }
    }

    /// Its own certificate as PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes its own certificate where `SSL_CERT_FILE` will point to.
    pub fn write_pem(&self, path: &Path) {
        std::fs::write(path, self.pem()).expect("the place can be written to");
    }

    /// What a server needs to show a certificate, for [`Options`](super::Options).
    pub fn config(&self, certificate: Certificate) -> Arc<ServerConfig> {
        let names: &[&str] = match certificate {
            Certificate::WrongName => &["elsewhere.example"],
            _ => &["localhost", "127.0.0.1", "::1"],
        };
        let mut params = params(names, "Server of a test");
        match certificate {
            Certificate::Expired => {
                params.not_before = date_time_ymd(2000, 1, 1);
                params.not_after = date_time_ymd(2001, 1, 1);
            }
            Certificate::NotYet => {
                params.not_before = date_time_ymd(2099, 1, 1);
                params.not_after = date_time_ymd(2100, 1, 1);
            }
            _ => {}
        }
        let key = KeyPair::generate().expect("keys can be made");
        let signed = match certificate {
            Certificate::SelfSigned => params.self_signed(&key),
            _ => params.signed_by(&key, &self.issuer),
        };
        let signed = signed.expect("the certificate is well-formed");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has both versions")
            .with_no_client_auth()
            .with_single_cert(vec![signed.der().clone()], key)
            .expect("the key is that of the certificate");
        Arc::new(config)
    }
}

/// What all certificates have in common.
fn params(names: &[&str], common_name: &str) -> CertificateParams {
    let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names).expect("the names are names");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2025, 1, 1);
    params.not_after = date_time_ymd(2035, 1, 1);
    params
}
