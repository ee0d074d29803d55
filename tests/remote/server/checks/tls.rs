//! Certificates are as good and as bad as they are said to be, by the judgement of rustls.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, RootCertStore, StreamOwned};

use super::super::tls::{Authority, Certificate};
use super::super::{Content, FileServer, Habit, Options};
use super::Wire;

fn server(authority: &Authority, certificate: Certificate) -> FileServer {
    let options = Options { tls: Some(authority.config(certificate)), ..Options::default() };
    FileServer::start(options, Habit::Honest, Content::pattern(100_000, 2))
}

/// Connects by a name that leads to the server, trusting an authority.
fn connected(
    server: &FileServer,
    trusted: &Authority,
) -> Result<Wire<StreamOwned<ClientConnection, TcpStream>>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut session = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    while session.is_handshaking() {
        if let Err(error) = session.complete_io(&mut socket) {
            return Err(error.downcast::<Error>().unwrap());
        }
    }
    Ok(Wire::over(StreamOwned::new(session, socket)))
}

fn refusal(certificate: Certificate) -> CertificateError {
    let authority = Authority::new();
    match connected(&server(&authority, certificate), &authority) {
        Err(Error::InvalidCertificate(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{certificate:?} was accepted"),
    }
}

#[test]
fn a_good_certificate_lets_requests_through() {
    let authority = Authority::new();
    let server = server(&authority, Certificate::Good);
    assert!(server.url_of("model").starts_with("https://127.0.0.1:"));
    let mut wire = connected(&server, &authority).unwrap();
    assert_eq!(wire.get("/model", &[]).body, Content::pattern(100_000, 2).whole());
    assert_eq!(wire.get("/model", &[("Range", "bytes=5-9")]).body.len(), 5);
    assert_eq!(server.log().connections(server.port()), 1);
}

#[test]
fn bad_certificates_are_bad_in_one_way_each() {
    let expired = refusal(Certificate::Expired);
    assert!(matches!(expired, CertificateError::ExpiredContext { .. }), "{expired:?}");
    let early = refusal(Certificate::NotYet);
    assert!(matches!(early, CertificateError::NotValidYetContext { .. }), "{early:?}");
    let name = refusal(Certificate::WrongName);
    assert!(matches!(name, CertificateError::NotValidForNameContext { .. }), "{name:?}");
    assert_eq!(refusal(Certificate::SelfSigned), CertificateError::UnknownIssuer);
}

#[test]
fn another_authority_is_an_unknown_issuer() {
    let server = server(&Authority::new(), Certificate::Good);
    let error = connected(&server, &Authority::new()).map(|_| ()).unwrap_err();
    // It has the trusted one's name, so that the signature is what is wrong.
    assert!(matches!(error, Error::InvalidCertificate(_)), "{error:?}");
}
