//! A server that sends its clients elsewhere: on and on, round and round, and to places that nobody should go to.

use super::content::Content;
use super::encoding::percent_encoded;
use super::listen::{Bound, Options, Server};
use super::log::Log;
use super::message::{Request, Response};
use super::ranges::Served;

/// Hosts that a client should not be led to, in the spellings that hide it.
pub const PRIVATE_HOSTS: [(&str, &str); 20] = [
    ("loopback", "127.0.0.1"),
    ("loopback by name", "localhost"),
    ("loopback, another address of it", "127.9.9.9"),
    ("loopback, short", "127.1"),
    ("loopback, decimal", "2130706433"),
    ("loopback, hexadecimal", "0x7f000001"),
    ("loopback, octal", "0177.0.0.1"),
    ("unspecified", "0.0.0.0"),
    ("private, class A", "10.0.0.1"),
    ("private, class B", "172.16.0.1"),
    ("private, class C", "192.168.0.1"),
    ("shared by carriers", "100.64.0.1"),
    ("link-local, where clouds keep credentials", "169.254.169.254"),
    ("loopback, version 6", "[::1]"),
    ("mapped loopback", "[::ffff:127.0.0.1]"),
    ("6to4 of loopback", "[2002:7f00:1::]"),
    ("NAT64 of loopback", "[64:ff9b::7f00:1]"),
    ("unique local, version 6", "[fd00::1]"),
    ("link-local, version 6", "[fe80::1]"),
    ("unspecified, version 6", "[::]"),
];

/// A redirector, until it is dropped.
pub struct Redirector {
    server: Server,
}

impl Redirector {
    /// A redirector with this content where its hops end.
    pub fn start(options: Options, content: Content) -> Self {
        let bound = Bound::new();
        let url = bound.url(&options);
        let served = Served::tagged(content, "the-end");
        let server = bound.serve(options, move |request: &Request| answer(request, &url, &served));
        Self { server }
    }

    /// Leads to the content by so many redirects, whose addresses are absolute and whose statuses differ.
    pub fn hops(&self, n: u32) -> String {
        format!("{}/hops/{n}/file", self.server.url())
    }

    /// The same with relative addresses.
    pub fn relative_hops(&self, n: u32) -> String {
        format!("{}/relative/{n}/file", self.server.url())
    }

    /// Leads to itself by way of another address.
    pub fn endless(&self) -> String {
        format!("{}/there/file", self.server.url())
    }

    /// Leads further and further, never to the same address twice.
    pub fn spiral(&self) -> String {
        format!("{}/spiral/0/file", self.server.url())
    }

    /// Leads to any text at all by a status.
    pub fn to(&self, status: u16, location: &str) -> String {
        format!("{}/to/{status}/{}/file", self.server.url(), percent_encoded(location))
    }

    /// A redirect that does not say where to.
    pub fn nowhere(&self) -> String {
        format!("{}/nowhere/file", self.server.url())
    }

    /// Every private host, with a name of the case, as a redirect to a port of it.
    pub fn to_private(&self, port: u16) -> Vec<(&'static str, String)> {
        let address = |host: &str| self.to(302, &format!("http://{host}:{port}/file"));
        PRIVATE_HOSTS.iter().map(|(case, host)| (*case, address(host))).collect()
    }

    /// Redirects to addresses that are no place for a model, with a name of the case. Those with a port have this one.
    pub fn to_odd(&self, port: u16) -> Vec<(&'static str, String)> {
        let odd = [
            ("a file", "file:///etc/passwd".to_owned()),
            ("a file of a host", "file://localhost/etc/passwd".to_owned()),
            ("data", "data:application/octet-stream;base64,AAAA".to_owned()),
            ("FTP", format!("ftp://127.0.0.1:{port}/file")),
            ("a scheme of the hub", "hf://apr/small".to_owned()),
            ("user and password", format!("http://user:password@127.0.0.1:{port}/file")),
            ("a host that looks like another", format!("http://huggingface.co@127.0.0.1:{port}/file")),
            ("no host", "http:///file".to_owned()),
            ("no address at all", "http://[".to_owned()),
            ("nothing", String::new()),
            ("spaces", "http://127.0.0.1 :80/ file".to_owned()),
            ("a port past the last", "http://127.0.0.1:65536/file".to_owned()),
        ];
        odd.into_iter().map(|(case, location)| (case, self.to(302, &location))).collect()
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    pub fn log(&self) -> &Log {
        self.server.log()
    }
}

fn answer(request: &Request, url: &str, served: &Served) -> Response {
    let segments = request.segments();
    let pieces: Vec<&str> = segments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u32>().unwrap_or(0);
    match pieces.as_slice() {
        ["hops", n, ..] if number(n) > 0 => {
            // Every status in turn, so that a client has to know them all.
            let status = [301, 302, 303, 307, 308][number(n) as usize % 5];
            Response::redirect(status, &format!("{url}/hops/{}/file", number(n) - 1))
        }
        ["relative", n, ..] if number(n) > 1 => {
            Response::redirect(302, &format!("../{}/file?hop={n}", number(n) - 1))
        }
        ["relative", n, ..] if number(n) == 1 => Response::redirect(302, "/relative/0/file"),
        ["there", ..] => Response::redirect(302, &format!("{url}/and-back/file")),
        ["and-back", ..] => Response::redirect(302, &format!("{url}/there/file")),
        ["spiral", n, ..] => Response::redirect(302, &format!("{url}/spiral/{}/file", number(n) + 1)),
        ["to", status, location, ..] => Response::redirect(status.parse().unwrap_or(302), location),
        ["to", status, ..] => Response::redirect(status.parse().unwrap_or(302), ""),
        ["nowhere", ..] => Response::text(302, "somewhere"),
        _ => served.answer(request),
    }
}
