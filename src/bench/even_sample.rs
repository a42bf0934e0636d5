//! An even sample of a list, where looking at all of it would take too long.

/// Whether the element at `place` of `of` is one of a sample of `wanted`, spread evenly; all are, if
/// there are no more.
pub fn is_chosen(place: usize, of: usize, wanted: usize) -> bool {
    let chosen_before = |place: usize| place as u128 * wanted.min(of) as u128 / of.max(1) as u128;
    chosen_before(place) < chosen_before(place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(of: usize, wanted: usize) -> Vec<usize> {
        (0..of).filter(|&place| is_chosen(place, of, wanted)).collect()
    }

    #[test]
    fn exactly_as_many_as_wanted_and_evenly() {
        for of in 1..200 {
            for wanted in 0..=of {
                let places = chosen(of, wanted);
                assert_eq!(places.len(), wanted, "{wanted} of {of}");
                let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
                let (least, most) =
                    gaps.fold((usize::MAX, 0), |(a, b), gap| (a.min(gap), b.max(gap)));
                assert!(most == 0 || most - least <= 1, "{places:?}");
            }
        }
        assert_eq!(chosen(63, 50).len(), 50);
        assert_eq!(chosen(3, 50), [0, 1, 2]);
        assert!(is_chosen(usize::MAX - 1, usize::MAX, usize::MAX));
    }
}
