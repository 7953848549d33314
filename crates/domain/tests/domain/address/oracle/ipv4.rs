//! The IPv4 deny list as the security rules write it, missing octets standing for zero.

const DENIED: &str = "0/8, 10/8, 100.64/10, 127/8, 169.254/16, 172.16/12, 192.0.0/24, 192.0.2/24,
    192.31.196/24, 192.52.193/24, 192.88.99/24, 192.168/16, 192.175.48/24, 198.18/15,
    198.51.100/24, 203.0.113/24, 224/4, 240/4, 168.63.129.16/32";

pub(crate) struct Oracle {
    /// Network and number of leading bits that count.
    pub(crate) blocks: Vec<(u32, u32)>,
}

impl Oracle {
    pub(crate) fn new() -> Self {
        Self { blocks: DENIED.split(',').map(|text| block(text.trim())).collect() }
    }

    pub(crate) fn allows(&self, address: u32) -> bool {
        let mut allowed = true;
        for (network, length) in &self.blocks {
            allowed &= (address ^ network) >> (32 - length) != 0;
        }
        allowed
    }
}

fn block(text: &str) -> (u32, u32) {
    let (network, length) = text.split_once('/').unwrap();
    let mut bits = 0;
    let mut octets = network.split('.');
    for _ in 0..4 {
        bits = bits * 256 + octets.next().map_or(0, |octet| octet.parse::<u32>().unwrap());
    }
    (bits, length.parse().unwrap())
}
