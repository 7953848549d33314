//! Pieces of SVG, and the card that every picture stands on.
//!
//! A picture is one file without scripts, fonts or links, so that it can be put anywhere; its colours
//! follow the reader's choice of light or dark. Whatever is drawn belongs to a class of the card's style.

/// How wide a card is, in pixels.
pub const WIDTH: f64 = 1_080.0;
/// How far from its edges things stand.
pub const MARGIN: f64 = 40.0;

const STYLE: &str = "
  svg { color-scheme: light dark; }
  .card { fill: #ffffff; stroke: #dfe3e8; }
  text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif;
         font-size: 13px; fill: #5c6773; font-variant-numeric: tabular-nums; }
  .title { font-size: 24px; font-weight: 650; fill: #1b2430; letter-spacing: -0.2px; }
  .name { font-size: 14px; font-weight: 650; fill: #1b2430; }
  .figure { font-weight: 600; fill: #1b2430; }
  .tick { font-size: 11.5px; fill: #7b8794; }
  .note { font-size: 12px; font-weight: 600; fill: #1b2430; paint-order: stroke; stroke: #ffffff;
          stroke-width: 4px; stroke-linejoin: round; }
  .grid { stroke: #e8ebef; fill: none; }
  .line { stroke: #aab4bf; fill: none; }
  .succeeded { fill: #2b8a8a; }
  .failed { fill: #d9593d; }
  .outage { fill: #d9593d; fill-opacity: 0.10; }
  .mark { stroke: #1b2430; stroke-dasharray: 3 3; fill: none; }
  .peak { stroke: #1b2430; fill: none; }
  .summit { fill: #1b2430; stroke: #ffffff; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #161b22; stroke: #2b323c; }
    text { fill: #a3afbd; }
    .title, .name, .figure { fill: #eef2f6; }
    .tick { fill: #8593a3; }
    .note { fill: #eef2f6; stroke: #161b22; }
    .grid { stroke: #262d37; }
    .line { stroke: #566273; }
    .succeeded { fill: #4fb8b0; }
    .failed { fill: #f0795c; }
    .outage { fill: #f0795c; fill-opacity: 0.14; }
    .mark, .peak { stroke: #eef2f6; }
    .summit { fill: #eef2f6; stroke: #161b22; }
  }
";

/// Puts a picture on a card, with a title and a description for a reader who cannot see it.
pub fn card(title: &str, description: &str, body: &str, height: f64) -> String {
    let (title, description) = (escaped(title), escaped(description));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title desc\" \
         viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\n\
         <title id=\"title\">{title}</title>\n<desc id=\"desc\">{description}</desc>\n\
         <style>{STYLE}</style>\n\
         <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"14\"/>\n\
         {body}</svg>\n",
        WIDTH - 1.0,
        height - 1.0,
    )
}

/// Where a text stands and on which side of that point.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    x: f64,
    y: f64,
    anchor: &'static str,
}

impl Place {
    /// A text that begins here.
    pub const fn left(x: f64, y: f64) -> Self {
        Self { x, y, anchor: "start" }
    }

    /// A text whose middle is here.
    pub const fn middle(x: f64, y: f64) -> Self {
        Self { x, y, anchor: "middle" }
    }

    /// A text that ends here.
    pub const fn right(x: f64, y: f64) -> Self {
        Self { x, y, anchor: "end" }
    }
}

/// Makes a text of a class.
pub fn text(class: &str, place: Place, words: &str) -> String {
    let Place { x, y, anchor } = place;
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let (x, y, words) = (pixels(x), pixels(y), escaped(words));
    format!("<text{class} x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{words}</text>\n")
}

/// Makes a straight line of a class.
pub fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(pixels);
    format!("<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>\n")
}

/// Makes a small dot of a class.
pub fn dot(class: &str, at: (f64, f64)) -> String {
    let [x, y] = [at.0, at.1].map(pixels);
    format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>\n")
}

/// Makes a rectangle of a class, with its upper left corner at a point.
pub fn rect(class: &str, at: (f64, f64), size: (f64, f64)) -> String {
    let [x, y, width, height] = [at.0, at.1, size.0, size.1].map(pixels);
    format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\n")
}

/// Writes a length with one decimal at most: more would only make the file larger.
pub fn pixels(length: f64) -> String {
    let rounded = (length * 10.0).round() / 10.0;
    // A minus before nothing would be written as such.
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

/// Writes words so that XML takes them as words.
pub fn escaped(words: &str) -> String {
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
