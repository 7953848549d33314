//! Pieces of SVG: text at a place, and numbers and words that are safe to write.

/// Where a text stands and on which side of that point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    x: f64,
    y: f64,
    anchor: &'static str,
}

impl Place {
    /// A text that begins here.
    pub(crate) const fn left(x: f64, y: f64) -> Self {
        Self { x, y, anchor: "start" }
    }

    /// A text whose middle is here.
    pub(crate) const fn middle(x: f64, y: f64) -> Self {
        Self { x, y, anchor: "middle" }
    }

    /// A text that ends here.
    pub(crate) const fn right(x: f64, y: f64) -> Self {
        Self { x, y, anchor: "end" }
    }
}

/// Makes a text of a class.
pub(crate) fn text(class: &str, place: Place, words: &str) -> String {
    let Place { x, y, anchor } = place;
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let (x, y, words) = (pixels(x), pixels(y), escaped(words));
    format!("<text{class} x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{words}</text>\n")
}

/// Makes a straight line of a class.
pub(crate) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(pixels);
    format!("<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>\n")
}

/// Makes a small dot of a class.
pub(crate) fn dot(class: &str, at: (f64, f64)) -> String {
    let [x, y] = [at.0, at.1].map(pixels);
    format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>\n")
}

/// Writes a length with one decimal at most: more would only make the file larger.
pub(crate) fn pixels(length: f64) -> String {
    let rounded = (length * 10.0).round() / 10.0;
    // A minus before nothing would be written as such.
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

/// Writes words so that XML takes them as words.
pub(crate) fn escaped(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for letter in words.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            // XML has no way to write control characters and these two.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other if other.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_become_markup() {
        assert_eq!(escaped("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&apos;");
        assert_eq!(escaped("bell\u{7}, nothing\u{ffff}"), "bell\u{fffd}, nothing\u{fffd}");
        assert!(!text("", Place::left(0.0, 0.0), "</text><script>").contains("<script>"));
    }

    #[test]
    fn lengths_have_at_most_one_decimal() {
        assert_eq!([1.0, 2.54, -0.01, 1_000.06].map(pixels), ["1", "2.5", "0", "1000.1"]);
    }
}
