//go:build race

package store

// underRace: the race detector makes each crash point ten times as long, and
// finds its races in a part of them.
const underRace = true
