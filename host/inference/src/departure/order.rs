//! Rows in another order.

use super::distance::distance;

/// Rows of a matrix as those of another in another order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Order {
    /// For each row, the row of the other that it is.
    places: Vec<usize>,
    /// Distance that is left.
    pub(super) distance: f64,
}

/// The matrix whose rows are the other's columns.
pub(super) fn transposed(elements: &[f32], columns: usize) -> Vec<f32> {
    let columns = columns.max(1);
    let rows = elements.len() / columns;
    let mut turned = Vec::with_capacity(elements.len());
    for column in 0..columns {
        turned.extend((0..rows).map(|row| elements[row * columns + column]));
    }
    turned
}

impl Order {
    /// The order in which rows are most alike by their sizes; `None` if it is the order that they have.
    pub(super) fn find(suspect: &[f32], reference: &[f32], columns: usize) -> Option<Order> {
        let columns = columns.max(1);
        let count = suspect.len() / columns;
        if count < 2 || suspect.len() != reference.len() {
            return None;
        }
        let (of_suspect, of_reference) = (by_size(suspect, columns), by_size(reference, columns));
        let mut places = vec![0; count];
        for (suspect, reference) in of_suspect.iter().zip(&of_reference) {
            places[*suspect] = *reference;
        }
        if places.iter().enumerate().all(|(at, place)| at == *place) {
            return None;
        }
        let mut ordered = Vec::with_capacity(reference.len());
        for place in &places {
            ordered.extend_from_slice(&reference[place * columns..(place + 1) * columns]);
        }
        Some(Order { distance: distance(suspect, &ordered), places })
    }

    /// The order in words; `lines` is what is ordered, `head` how many of them belong to a head.
    pub(super) fn words(&self, lines: &str, head: Option<usize>) -> String {
        let count = self.places.len();
        let is = |place: &dyn Fn(usize) -> usize| {
            self.places.iter().enumerate().all(|(at, found)| place(at) == *found)
        };
        if let Some(head) = head.filter(|head| *head > 1 && count.is_multiple_of(*head)) {
            let half = (head / 2).max(1);
            let base = |at: usize| at / head * head;
            // Where neighbours rotate together in one style, halves of the head do in the other.
            if is(&|at| base(at) + at % head / 2 + at % 2 * half)
                || is(&|at| base(at) + at % head % half * 2 + at % head / half)
            {
                return format!(
                    "has the {lines} of each head in the order of the other RoPE style: Q and K are permuted where they must not be, or are not where they must"
                );
            }
            if count > head && is(&|at| self.places[base(at)] + at % head) {
                let heads: Vec<String> =
                    self.places.iter().step_by(head).map(|place| (place / head).to_string()).collect();
                let shown = heads.iter().take(16).cloned().collect::<Vec<_>>().join(", ");
                return format!("has its heads in another order: {shown}");
            }
            if self.places.iter().enumerate().all(|(at, place)| base(at) == base(*place)) {
                return format!("has the {lines} of each head in another order");
            }
        }
        if count.is_multiple_of(2) && is(&|at| (at + count / 2) % count) {
            return format!("has the halves of its {lines} exchanged");
        }
        if is(&|at| count - 1 - at) {
            return format!("has its {lines} in reverse order");
        }
        format!("has its {lines} in another order")
    }
}

/// The numbers of rows, those of the smallest size first.
fn by_size(elements: &[f32], columns: usize) -> Vec<usize> {
    // Powers beyond the second tell rows apart whose sums of squares are the same.
    let sizes: Vec<(f64, f64)> = elements
        .chunks_exact(columns)
        .map(|row| {
            let square = row.iter().map(|element| f64::from(*element).powi(2)).sum();
            (square, row.iter().map(|element| f64::from(*element)).sum())
        })
        .collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|a, b| sizes[*a].0.total_cmp(&sizes[*b].0).then(sizes[*a].1.total_cmp(&sizes[*b].1)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of three elements, all of different sizes.
    fn rows(order: &[usize]) -> Vec<f32> {
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        order.iter().flat_map(|row| [*row as f32 + 1.0, 0.5, -0.25 * *row as f32]).collect()
    }

    fn words(order: &[usize], head: Option<usize>) -> String {
        let straight: Vec<usize> = (0..order.len()).collect();
        let found = Order::find(&rows(order), &rows(&straight), 3).unwrap();
        assert!(found.distance < 1e-9);
        found.words("rows", head)
    }

    #[test]
    fn orders_are_told_apart() {
        assert!(words(&[0, 2, 1, 3, 4, 6, 5, 7], Some(4)).contains("RoPE style"));
        assert!(words(&[0, 4, 1, 5, 2, 6, 3, 7], Some(8)).contains("RoPE style"));
        assert!(words(&[4, 5, 6, 7, 0, 1, 2, 3], Some(2)).contains("another order: 2, 3, 0, 1"));
        assert!(words(&[3, 0, 2, 1, 4, 5, 6, 7], Some(4)).contains("of each head"));
        assert!(words(&[3, 4, 5, 0, 1, 2], None).contains("halves"));
        assert!(words(&[5, 4, 3, 2, 1, 0], None).contains("reverse"));
        assert!(words(&[5, 0, 3, 1, 4, 2], None).contains("in another order"));
        let same = rows(&[0, 1, 2, 3]);
        assert_eq!(Order::find(&same, &same, 3), None);
    }
}
