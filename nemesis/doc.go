// Package nemesis holds the faults that are done to a cluster and to the
// connections between it and its clients: what there is, how it is asked for, when
// it is injected, and how all of it is undone.
//
// A fault is a row of the catalogue (catalogue.go). Ask for faults with Parse, draw
// a Schedule from a seed with Draw, and play it with a Player, which writes what
// it is about to do before it does it.
package nemesis
