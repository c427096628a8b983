// Package arch holds the import fences of the repository as a test. There is
// no code here: see arch_test.go, whose tables say which package may use what.
package arch
