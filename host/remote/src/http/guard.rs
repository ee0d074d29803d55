//! Judgement of the addresses that a request connects to. A server that redirects must not make apr talk to machines that only the
//! user's network can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The part of the network that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// The internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network, shared addresses of providers included.
    Private,
    /// The same link.
    LinkLocal,
    /// No single machine, or a range that nothing may use: unspecified, multicast, reserved, documentation.
    Unusable,
}

impl Reach {
    /// The reach of an address; one that holds an IPv4 address is judged as that.
    pub fn of(address: IpAddr) -> Reach {
        match address {
            IpAddr::V4(four) => Reach::of_four(four),
            IpAddr::V6(six) => embedded(six).map_or_else(|| Reach::of_six(six), Reach::of_four),
        }
    }

    /// A word for messages.
    pub fn word(self) -> &'static str {
        match self {
            Reach::Public => "public",
            Reach::Loopback => "loopback",
            Reach::Private => "private",
            Reach::LinkLocal => "link-local",
            Reach::Unusable => "reserved",
        }
    }

    fn of_four(four: Ipv4Addr) -> Reach {
        let [a, b, c, _] = four.octets();
        match (a, b, c) {
            (127, ..) => Reach::Loopback,
            (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Reach::Private,
            (169, 254, _) => Reach::LinkLocal,
            // RFC 6890: this network, protocol assignments, documentation, benchmarks; multicast and above.
            (0 | 224..=255, ..) | (192, 0, 0 | 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) => {
                Reach::Unusable
            }
            _ => Reach::Public,
        }
    }

    fn of_six(six: Ipv6Addr) -> Reach {
        let first = six.segments()[0];
        match first {
            _ if six.is_loopback() => Reach::Loopback,
            _ if six.is_unspecified() || six.is_multicast() => Reach::Unusable,
            0xfe80..=0xfebf => Reach::LinkLocal,
            // Unique local, and the deprecated site-local.
            0xfc00..=0xfdff | 0xfec0..=0xfeff => Reach::Private,
            0x2000..=0x3fff if !(first == 0x2001 && six.segments()[1] == 0xdb8) => Reach::Public,
            _ => Reach::Unusable,
        }
    }
}

/// The IPv4 address in an IPv6 address: mapped and compatible (RFC 4291), 6to4 (RFC 3056), NAT64 (RFC 6052, RFC 8215),
/// Teredo (RFC 4380).
fn embedded(six: Ipv6Addr) -> Option<Ipv4Addr> {
    let part = six.segments();
    let four = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match part {
        [0, 0, 0, 0, 0, 0xffff, high, low] => Some(four(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] => Some(four(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => Some(four(high, low)),
        [0x2002, high, low, ..] => Some(four(high, low)),
        [0x64, 0xff9b, .., high, low] => Some(four(high, low)),
        [0x2001, 0, .., high, low] => Some(four(!high, !low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_judged_by_where_they_lead() {
        let cases = [
            ("8.8.8.8", Reach::Public),
            ("2606:4700::1", Reach::Public),
            ("127.0.0.1", Reach::Loopback),
            ("127.255.0.9", Reach::Loopback),
            ("::1", Reach::Loopback),
            ("::ffff:127.0.0.1", Reach::Loopback),
            ("2002:7f00:1::", Reach::Loopback),
            ("64:ff9b::7f00:1", Reach::Loopback),
            ("64:ff9b:1::a00:1", Reach::Private),
            ("::7f00:1", Reach::Loopback),
            ("2001:0:1:2:3:4:80ff:fffe", Reach::Loopback),
            ("10.1.2.3", Reach::Private),
            ("172.16.0.1", Reach::Private),
            ("172.32.0.1", Reach::Public),
            ("192.168.9.9", Reach::Private),
            ("100.64.0.1", Reach::Private),
            ("::ffff:192.168.1.1", Reach::Private),
            ("fd00::1", Reach::Private),
            ("169.254.169.254", Reach::LinkLocal),
            ("fe80::1", Reach::LinkLocal),
            ("2002:a9fe:a9fe::1", Reach::LinkLocal),
            ("0.0.0.0", Reach::Unusable),
            ("::", Reach::Unusable),
            ("255.255.255.255", Reach::Unusable),
            ("224.0.0.1", Reach::Unusable),
            ("ff02::1", Reach::Unusable),
        ];
        for (text, reach) in cases {
            assert_eq!(Reach::of(text.parse().unwrap()), reach, "{text}");
        }
    }
}
