//! What an attempt's headers cost, by profile and size of the body.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use signature::{Attempt, Profile, Signer, SigningSecret};

const SHARED: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const PRIVATE: &str =
    "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";

#[expect(clippy::expect_used, reason = "the constants above are valid")]
fn signer(secret: &str, profiles: &[&str]) -> Signer {
    let secret: SigningSecret = secret.parse().expect("a valid secret");
    let profiles: Vec<Profile> =
        profiles.iter().map(|text| text.parse().expect("a valid profile")).collect();
    Signer::new(&[secret], &profiles).expect("a valid setup")
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let signers = [
        ("standard", signer(SHARED, &["standard-webhooks"])),
        ("standard+svix", signer(SHARED, &["standard-webhooks", "svix"])),
        ("branded", signer(SHARED, &["branded:Acme"])),
        ("webhook-digest", signer(SHARED, &["webhook-digest"])),
        ("ed25519", signer(PRIVATE, &["standard-webhooks"])),
    ];
    for (name, signer) in signers {
        let mut group = criterion.benchmark_group(name);
        for size in [128, 1024, 16 * 1024] {
            let body = vec![b'a'; size];
            let attempt = Attempt {
                message_id: "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                delivery_id: "dlv_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                event_type: "user.created",
                timestamp: 1_649_367_553,
                body: &body,
            };
            group.throughput(Throughput::Elements(1));
            group.bench_function(size.to_string(), |bencher| {
                bencher.iter(|| signer.headers(black_box(&attempt)));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
