"""Published methods, written from their papers' formulas, to be measured beside."""
