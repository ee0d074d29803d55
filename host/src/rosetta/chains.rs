//! Chains of conversions: for each length, a seeded covering set in which every ordered pair of formats is
//! adjacent at least once, or all there are.

use apr_testkit::Random;

/// Lengths of chains to try, in hops.
pub const LENGTHS: std::ops::RangeInclusive<usize> = 3..=5;

/// Chains of `n_hops` conversions over `n_formats` formats, in which every ordered pair is adjacent. No
/// format follows itself. The same seed gives the same chains.
pub fn covering(n_formats: usize, n_hops: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed ^ (n_hops as u64) << 32);
    let mut open: Vec<(usize, usize)> = pairs(n_formats);
    let mut chains = Vec::new();
    while !open.is_empty() {
        let mut chain = vec![open[pick(&mut random, open.len())].0];
        while chain.len() <= n_hops {
            let here = chain[chain.len() - 1];
            let fresh: Vec<usize> = open.iter().filter(|p| p.0 == here).map(|p| p.1).collect();
            let next = if fresh.is_empty() {
                // Continue with the format that has most pairs left, so that the next hop is useful too.
                let others = (0..n_formats).filter(|&n| n != here);
                others.max_by_key(|&n| open.iter().filter(|p| p.0 == n).count()).unwrap_or(here)
            } else {
                fresh[pick(&mut random, fresh.len())]
            };
            open.retain(|pair| *pair != (here, next));
            chain.push(next);
        }
        chains.push(chain);
    }
    chains
}

/// Every chain of `n_hops` conversions over `n_formats` formats.
pub fn every(n_formats: usize, n_hops: usize) -> Vec<Vec<usize>> {
    let mut chains: Vec<Vec<usize>> = (0..n_formats).map(|n| vec![n]).collect();
    for _ in 0..n_hops {
        let mut longer = Vec::with_capacity(chains.len() * n_formats);
        for chain in &chains {
            let last = chain[chain.len() - 1];
            longer.extend((0..n_formats).filter(|&n| n != last).map(|n| [&chain[..], &[n]].concat()));
        }
        chains = longer;
    }
    chains
}

fn pairs(n_formats: usize) -> Vec<(usize, usize)> {
    let all = (0..n_formats).flat_map(|a| (0..n_formats).map(move |b| (a, b)));
    all.filter(|(a, b)| a != b).collect()
}

fn pick(random: &mut Random, n: usize) -> usize {
    usize::try_from(random.bits() % n.max(1) as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ordered_pair_is_adjacent_in_every_length() {
        for n in 0..9 {
            for hops in LENGTHS {
                let chains = covering(n, hops, 1);
                for pair in pairs(n) {
                    let there = chains.iter().flat_map(|c| c.windows(2)).any(|w| (w[0], w[1]) == pair);
                    assert!(there, "{n} formats, {hops} hops: {pair:?} in {chains:?}");
                }
                assert!(chains.iter().all(|c| c.len() == hops + 1 && c.windows(2).all(|w| w[0] != w[1])));
                // A covering set is only useful if it is small.
                assert!(chains.len() <= pairs(n).len().div_ceil(hops) * 2, "{n} {hops}: {}", chains.len());
                assert_eq!(chains, covering(n, hops, 1));
            }
        }
        assert_ne!(covering(6, 3, 1), covering(6, 3, 2));
    }

    #[test]
    fn all_chains_are_all() {
        assert_eq!(every(3, 3).len(), 3 * 2 * 2 * 2);
        assert_eq!(every(1, 3).len(), 0);
    }
}
