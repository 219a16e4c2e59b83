//! "Did you mean": the declared name nearest to a misspelt one.

/// The candidate with the fewest edits, if it is near enough to be a misspelling.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word: String = word.chars().take(64).collect();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(edits, candidate)| *edits * 3 <= candidate.chars().count().max(3))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?" or, where nothing is near, the list of what there is.
pub fn remedy<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str> + Clone) -> String {
    if let Some(candidate) = nearest(word, candidates.clone()) {
        return format!("did you mean `{candidate}`?");
    }
    let all: Vec<String> = candidates.into_iter().map(|candidate| format!("`{candidate}`")).collect();
    match all.len() {
        0 => "declare it first".to_owned(),
        1..=12 => format!("use one of {}", all.join(", ")),
        more => format!("use one of {}, … ({more} in all)", all[..12].join(", ")),
    }
}

/// Insertions, deletions, substitutions and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_near_and_other_words_are_not() {
        assert_eq!(nearest("gruop_by", ["group_by", "count_by"]), Some("group_by"));
        assert_eq!(nearest("statis", ["Status", "Name"]), Some("Status"));
        assert_eq!(nearest("colour", ["group_by", "count_by"]), None);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn without_a_near_word_the_remedy_lists_what_there_is() {
        assert_eq!(remedy("xyz", ["Alpha", "Beta"]), "use one of `Alpha`, `Beta`");
        assert_eq!(remedy("xyz", []), "declare it first");
    }
}
