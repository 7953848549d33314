//! The IPv6 allow-list as the security rules write it, and what it drops without naming it.

use super::ipv4;

const ALLOWED: &str = "2000::/3";

const EXCEPT: &str = "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20";

/// Denied because they are outside the allow-list; here to find their edges.
const UNNAMED: &str = "::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 \
    5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8";

pub(crate) struct Oracle {
    ipv4: ipv4::Oracle,
    allowed: (u128, u32),
    except: Vec<(u128, u32)>,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self { ipv4: ipv4::Oracle::new(), allowed: block(ALLOWED), except: blocks(EXCEPT) }
    }

    pub(crate) fn allows(&self, address: u128) -> bool {
        let low = u32::try_from(address % (1 << 32)).unwrap();
        if address >> 32 == 0xffff {
            return self.ipv4.allows(low);
        }
        let marker = (address >> 32) % (1 << 32);
        let isatap = marker == 0x5efe || marker == 0x0200_5efe;
        within(address, self.allowed)
            && !self.except.iter().any(|block| within(address, *block))
            && (!isatap || self.ipv4.allows(low))
    }

    /// Every block of the page, those included that it drops without a word.
    pub(crate) fn blocks(&self) -> Vec<(u128, u32)> {
        blocks(&[ALLOWED, EXCEPT, UNNAMED].join(" "))
    }
}

fn within(address: u128, (network, length): (u128, u32)) -> bool {
    (address ^ network) >> (128 - length) == 0
}

fn blocks(list: &str) -> Vec<(u128, u32)> {
    list.split_whitespace().map(block).collect()
}

fn block(text: &str) -> (u128, u32) {
    let (network, length) = text.split_once('/').unwrap();
    let (head, tail) = network.split_once("::").unwrap();
    let head = groups(head);
    let tail = groups(tail);
    let mut bits = 0;
    for index in 0..8 {
        let from_end = 8 - index;
        let group = match (head.get(index), tail.len().checked_sub(from_end)) {
            (Some(group), _) => *group,
            (None, Some(index)) => tail[index],
            (None, None) => 0,
        };
        bits = bits * 65_536 + group;
    }
    (bits, length.parse().unwrap())
}

fn groups(text: &str) -> Vec<u128> {
    let parse = |group| u128::from_str_radix(group, 16).unwrap();
    text.split(':').filter(|group| !group.is_empty()).map(parse).collect()
}
