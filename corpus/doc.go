// Package corpus makes small histories whose truth is known, and measures a checker by
// them: healthy ones, in which nothing may be found, and ones into which one defect was
// planted, which must be found and called by its name, and nothing else.
//
// A planted defect is an anomaly at a place where it can hide, in a kind of history:
// every anomaly × every place × every kind, as far as the three go together. What does
// not go together is listed with the reason (Impossible). What nobody could tell of must
// be called unknown.
//
// All is drawn from a seed: the same seed gives the same histories.
package corpus
