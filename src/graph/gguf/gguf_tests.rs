//! Files that are right, cut, turned upside down and lying.

use super::testing::{F32, Q4_K, Writer, llama};
use super::*;
use proptest::prelude::*;

/// Parses a file whose description is all there.
fn whole(file: Writer) -> Result<(), Error> {
    let (bytes, length) = file.finish();
    Gguf::parse(&bytes, length).map(|_| ())
}

fn why(file: Writer) -> String {
    whole(file).unwrap_err().to_string()
}

#[test]
fn a_small_llama_is_read() {
    let (bytes, length) = llama("llama", 2).finish();
    let gguf = Gguf::parse(&bytes, length).unwrap();
    assert_eq!(gguf.text("general.architecture").as_deref(), Some("llama"));
    assert_eq!(gguf.number("llama.block_count"), Some(2));
    assert_eq!(gguf.count("tokenizer.ggml.tokens"), Some(3));
    assert_eq!((gguf.number("general.name"), gguf.text("llama.block_count")), (None, None));
    assert_eq!(gguf.weights.len(), 2 + 2 * 9);
    let down = gguf.weight("blk.1.ffn_down.weight").unwrap();
    assert_eq!((down.ty, down.ne, down.bytes()), (Type::Q6_K, [1024, 512, 1, 1], 1024 * 512 / 256 * 210));
}

#[test]
fn numbers_of_every_kind_are_read_and_fractions_are_none() {
    let array = |kind: u32, count: u64, bytes: &[u8]| [&kind.to_le_bytes()[..], &count.to_le_bytes(), bytes].concat();
    let file = Writer::default()
        .raw("u8", 0, &[200])
        .raw("i16", 3, &(-1_i16).to_le_bytes())
        .raw("f32", 6, &1.0_f32.to_le_bytes())
        .raw("bool", 7, &[1])
        .raw("u64", 10, &u64::MAX.to_le_bytes())
        .raw("i64", 11, &7_i64.to_le_bytes())
        .raw("per layer", 9, &array(5, 3, &[[4, 0, 0, 0], [0; 4], [5, 1, 0, 0]].concat()))
        .raw("none", 9, &array(4, 0, &[]));
    let (bytes, length) = file.finish();
    let gguf = Gguf::parse(&bytes, length).unwrap();
    let number = |key: &str| gguf.number(key);
    assert_eq!([number("u8"), number("bool"), number("i64")], [Some(200), Some(1), Some(7)]);
    assert_eq!(number("u64"), Some(u64::MAX));
    assert_eq!([number("i16"), number("f32"), number("per layer"), number("none"), number("absent")], [None; 5]);
    assert_eq!(gguf.numbers("per layer"), Some(vec![4, 0, 261]));
    assert_eq!((gguf.count("per layer"), gguf.count("none")), (Some(3), Some(0)));
}

#[test]
fn each_type_has_the_number_that_ggml_gives_it() {
    // GGML_TYPE_COUNT is 43; those left out were removed from ggml or are never stored.
    let none = [4, 5, 15, 31, 32, 33, 36, 37, 38];
    let found: Vec<_> = (0..60).filter_map(type_of).collect();
    assert_eq!(found.len(), 43 - none.len());
    assert!(none.iter().chain(&[43, u32::MAX]).all(|code| type_of(*code).is_none()));
    assert!(Type::all().all(|ty| found.contains(&ty)), "a type without a number");
    for (code, name) in
        [(1, "f16"), (8, "q8_0"), (14, "q6_K"), (20, "iq4_nl"), (23, "iq4_xs"), (30, "bf16"), (39, "mxfp4")]
    {
        assert_eq!(type_of(code).unwrap().name(), name);
    }
}

#[test]
fn what_cannot_be_right_is_refused_with_the_number() {
    let with = |name: &str, ne: &[u64]| Writer::default().weight(name, F32, ne);
    assert!(why(with("x", &[1; 5])).contains("5 dimensions"));
    assert!(why(Writer::default().weight("x", Q4_K, &[100, 4])).contains("100 elements, not a multiple of 256"));
    assert!(why(Writer::default().weight("x", (31, 1, 1), &[4])).contains("type 31"));
    assert!(why(with("x", &[4]).weight("x", F32, &[4])).contains("twice"));
    assert!(why(Writer::default().number("a", 1).number("a", 1)).contains("key 'a': it is there twice"));
    assert!(why(Writer::default().number("", 1)).contains("is no name"));
    assert!(why(Writer::default().raw("a", 13, &[])).contains("type 13"));
    assert!(why(Writer::default().raw("a", 9, &[9; 12])).contains("type"), "an array of arrays");
    for alignment in [0, 3, 48] {
        assert!(why(with("x", &[4]).number("general.alignment", alignment)).contains("power of two"));
    }
    let (bytes, length) = with("x", &[4]).number("general.alignment", 64).finish();
    assert!(Gguf::parse(&bytes, length + 64).is_ok());
}

#[test]
fn a_lying_number_costs_nothing() {
    // Each of these would be terabytes if it were believed.
    let huge = u64::MAX.to_le_bytes();
    let lies = [
        Writer::default().raw("a", 8, &huge),
        Writer::default().raw("a", 9, &[&8_u32.to_le_bytes()[..], &huge].concat()),
        Writer::default().raw("a", 9, &[&10_u32.to_le_bytes()[..], &(1_u64 << 61).to_le_bytes()].concat()),
    ];
    for file in lies {
        assert!(matches!(whole(file), Err(Error::Truncated { .. })));
    }
    let mut counts = b"GGUF\x03\0\0\0".to_vec();
    counts.extend([huge, huge].concat());
    assert!(matches!(Gguf::parse(&counts, counts.len() as u64), Err(Error::Truncated { .. })));
    let file = |ne: u64| {
        [
            &counts[..8],
            &1_u64.to_le_bytes(),
            &[0; 8],
            &1_u64.to_le_bytes(),
            b"x",
            &2_u32.to_le_bytes(),
            &ne.to_le_bytes(),
            &ne.to_le_bytes(),
            &[0; 12],
        ]
        .concat()
    };
    let refused = |ne| Gguf::parse(&file(ne), 1 << 20).unwrap_err().to_string();
    assert!(refused(1 << 40).contains("more than there can be"));
    assert!(refused(u64::MAX).contains("more than there can be"));
    assert!(refused(1 << 20).contains("ends inside tensor 'x'"));
}

#[test]
fn other_files_are_told_apart() {
    let parse = |bytes: &[u8]| Gguf::parse(bytes, bytes.len() as u64).unwrap_err();
    assert_eq!(parse(b"PK\x03\x04 a zip"), Error::NotGguf);
    assert_eq!(parse(b"GGUF\x01\0\0\0"), Error::Version(1));
    // A file of a big-endian machine.
    assert_eq!(parse(b"GGUF\0\0\0\x03"), Error::Version(3 << 24));
    assert!(matches!(parse(b""), Error::Truncated { length: 0, .. }));
}

proptest! {
    #[test]
    fn a_beginning_asks_for_more_and_a_cut_file_is_refused(cut in 0_usize..4000) {
        let (bytes, length) = llama("llama", 3).finish();
        let cut = cut % bytes.len();
        let asked = Gguf::parse(&bytes[..cut], length);
        let end = bytes.len() - 31;
        if cut < end {
            let asks = matches!(asked, Err(Error::Short { needed }) if needed > cut as u64 && needed <= length);
            prop_assert!(asks, "{cut} bytes: {asked:?}");
        }
        let refused = matches!(Gguf::parse(&bytes[..cut], cut as u64), Err(Error::Truncated { .. }));
        prop_assert!(refused, "a file of {cut} bytes");
    }

    #[test]
    fn turned_bytes_are_read_or_refused(turned in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let (mut bytes, length) = llama("llama", 1).finish();
        for (at, byte) in turned {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        // What is read is within the file; how it ends is not the point.
        if let Ok(gguf) = Gguf::parse(&bytes, length) {
            let all: u64 = gguf.weights.iter().map(|w| w.bytes().min(length)).sum();
            prop_assert!(all <= length * gguf.weights.len() as u64);
        }
    }

    #[test]
    fn noise_is_read_or_refused(noise in prop::collection::vec(any::<u8>(), 0..200), length in 0..10_000_u64) {
        let bytes = [b"GGUF\x03\0\0\0", &noise[..]].concat();
        let _ = Gguf::parse(&bytes, length);
        let small = [b"GGUF\x03\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0", &noise[..]].concat();
        let _ = Gguf::parse(&small, length);
    }
}
