//! The guard and the oracle agree on every edge and on millions of random addresses. All 2^32 IPv4
//! addresses take a release build: `cargo run --release -p redial-domain --example every_ipv4`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use domain::address::{Guard, Settings};

use super::oracle::{ipv4, ipv6};

use super::FIRST;

const RANDOM_ADDRESSES: u32 = 10_000_000;

/// Steele, Lea and Flood's generator: one word of state, any seed will do.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap()).unwrap()
    }

    fn next_u128(&mut self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.next())
    }
}

/// First and last address of every block, and their neighbours on both sides.
fn ipv4_edges(oracle: &ipv4::Oracle) -> impl Iterator<Item = u32> {
    let edges = |(first, length): &(u32, u32)| {
        let last = first | u32::MAX.unbounded_shr(*length);
        [*first, last].map(|edge| [edge.wrapping_sub(1), edge, edge.wrapping_add(1)])
    };
    oracle.blocks.iter().flat_map(edges).flatten()
}

/// First and last address of every block, and their neighbours on both sides.
fn ipv6_edges(oracle: &ipv6::Oracle) -> impl Iterator<Item = u128> {
    let edges = |(first, length): (u128, u32)| {
        let last = first | u128::MAX.unbounded_shr(length);
        [first, last].map(|edge| [edge.wrapping_sub(1), edge, edge.wrapping_add(1)])
    };
    oracle.blocks().into_iter().flat_map(edges).flatten()
}

fn allows(guard: &Guard, address: IpAddr) -> bool {
    guard.vet_address(SocketAddr::new(address, 443), FIRST).is_ok()
}

fn allows_ipv4(guard: &Guard, bits: u32) -> bool {
    allows(guard, Ipv4Addr::from_bits(bits).into())
}

fn allows_ipv6(guard: &Guard, bits: u128) -> bool {
    allows(guard, Ipv6Addr::from_bits(bits).into())
}

#[test]
fn the_oracle_itself_reads_its_lists() {
    let (old, new) = (ipv4::Oracle::new(), ipv6::Oracle::new());
    let ipv4 = |text: &str| old.allows(text.parse::<Ipv4Addr>().unwrap().to_bits());
    let ipv6 = |text: &str| new.allows(text.parse::<Ipv6Addr>().unwrap().to_bits());
    assert!(ipv4("8.8.8.8") && ipv4("168.63.129.15") && ipv4("223.255.255.255"));
    assert!(!ipv4("0.0.0.0") && !ipv4("172.31.255.255") && !ipv4("255.255.255.255"));
    assert!(ipv6("2a00:1450::1") && ipv6("2001:200::") && ipv6("::ffff:8.8.8.8"));
    assert!(!ipv6("2001:1ff::1") && !ipv6("::1") && !ipv6("4000::") && !ipv6("2620:4f:8000::1"));
}

#[test]
fn the_guard_and_the_oracle_agree_on_every_edge_of_ipv4() {
    let (guard, oracle) = (Guard::new(Settings::default()), ipv4::Oracle::new());
    for bits in ipv4_edges(&oracle) {
        let address = Ipv4Addr::from_bits(bits);
        assert_eq!(allows_ipv4(&guard, bits), oracle.allows(bits), "{address}");
    }
}

#[test]
fn the_guard_and_the_oracle_agree_on_every_edge_of_ipv6() {
    let (guard, oracle) = (Guard::new(Settings::default()), ipv6::Oracle::new());
    for bits in ipv6_edges(&oracle) {
        let address = Ipv6Addr::from_bits(bits);
        assert_eq!(allows_ipv6(&guard, bits), oracle.allows(bits), "{address}");
    }
}

#[test]
fn the_edges_of_ipv4_are_edges_inside_mapped_and_isatap_addresses_too() {
    let (guard, oracle) = (Guard::new(Settings::default()), ipv6::Oracle::new());
    let prefixes = [
        0xffff_u128 << 32,
        (0x2a00_1450 << 96) | (0x5efe << 32),
        (0x2a00_1450 << 96) | (0x0200_5efe << 32),
        (0x2a00_1450 << 96) | (0x5eff << 32),
        0x5efe << 32,
        0xffff << 48,
        0x0064_ff9b << 96,
        0,
    ];
    for inside in ipv4_edges(&ipv4::Oracle::new()) {
        for prefix in prefixes {
            let bits = prefix | u128::from(inside);
            let address = Ipv6Addr::from_bits(bits);
            assert_eq!(allows_ipv6(&guard, bits), oracle.allows(bits), "{address}");
        }
    }
}

#[test]
fn the_guard_and_the_oracle_agree_on_ten_million_random_ipv4_addresses() {
    let (guard, oracle) = (Guard::new(Settings::default()), ipv4::Oracle::new());
    let mut random = SplitMix(0x5eed_0004);
    for _ in 0..RANDOM_ADDRESSES {
        let bits = u32::try_from(random.next() >> 32).unwrap();
        let address = Ipv4Addr::from_bits(bits);
        assert_eq!(allows_ipv4(&guard, bits), oracle.allows(bits), "{address}");
    }
}

#[test]
fn the_guard_and_the_oracle_agree_on_ten_million_random_ipv6_addresses() {
    let (guard, oracle) = (Guard::new(Settings::default()), ipv6::Oracle::new());
    let blocks = oracle.blocks();
    let mut random = SplitMix(0x5eed_0006);
    let mut allowed = 0_u32;
    for round in 0..RANDOM_ADDRESSES {
        let bits = random.next_u128();
        let bits = match round % 4 {
            // Anywhere in the allow-list.
            0 => (bits >> 3) | (1 << 125),
            // In, or one bit beside, a block of the page.
            1 => {
                let (network, length) = blocks[random.below(blocks.len())];
                let beside = 1 << (128 - length + u32::try_from(random.below(4)).unwrap()).min(127);
                (network | (bits >> length)) ^ if random.below(2) == 0 { beside } else { 0 }
            }
            // An ISATAP address in the allow-list.
            2 => {
                let marker = if random.below(2) == 0 { 0x5efe } else { 0x0200_5efe };
                (((bits >> 3) | (1 << 125)) & !(0xffff_ffff << 32)) | (marker << 32)
            }
            // A mapped address.
            _ => (0xffff << 32) | (bits >> 96),
        };
        let expected = oracle.allows(bits);
        allowed += u32::from(expected);
        let address = Ipv6Addr::from_bits(bits);
        assert_eq!(allows_ipv6(&guard, bits), expected, "{address}");
    }
    // Had one verdict crowded out the other, the agreement would mean little.
    assert!(allowed > RANDOM_ADDRESSES / 4 && allowed < RANDOM_ADDRESSES / 4 * 3, "{allowed}");
}
