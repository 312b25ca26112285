#include "quantize/calibration_text.h"

namespace quire {

const std::string_view kCalibrationText =
    R"(The harbour wakes before the town does. Long before the first shutters open, the fishermen have
already mended what the night tore, and the gulls have learned which boats are worth following. By six
the quay smells of diesel, rope and coffee. A woman in a yellow coat walks along the wall and counts
the crates that come ashore; she writes each number into a small book, tears out the page, and hands
it to a boy who runs with it to the auction hall. Nobody has ever asked why the book is yellow too.

Why does bread rise? Yeast eats the sugar in the dough and breathes out carbon dioxide. The gas
cannot escape, because the gluten in the flour forms a net of long elastic strands; it is caught in
small bubbles that grow as the dough rests. In the oven the bubbles swell once more, the water turns
to steam, the starch sets, and what was a soft net becomes the crumb of the loaf.

"Have you seen the report?" she asked.
"Twice," he said. "The second time I understood it."
"And?"
"It says that we were wrong about the river, right about the bridge, and late with both."

To change a tyre: 1. Stop on firm, level ground and switch on the hazard lights. 2. Loosen the nuts
half a turn while the wheel still stands on the road. 3. Lift the car until the wheel is free.
4. Take the wheel off, put the spare on, and tighten the nuts by hand, crosswise. 5. Lower the car
and tighten them fully.

def greatest_common_divisor(a, b):
    while b:
        a, b = b, a % b
    return a

In 1869 the table listed 63 elements; today it has 118. Iron melts at 1538 degrees Celsius, gold at
1064, lead at 327.5 and mercury at -38.8. A litre of mercury weighs 13.5 kilograms, which is why the
flask that looked so small could hardly be lifted from the bench.

The law says that a contract needs an offer and an acceptance, but it says little about the silence
between them. Courts have held that silence is not consent, then that it may be, where both sides
have dealt with each other for years and one of them had every chance to object. What counts in the
end is what a reasonable person would have understood, standing where the other party stood.
)";

}  // namespace quire
