//go:build ignore

// Makes list.bin of a text of passwords, the most common first, one a line:
//
//	go run gen.go 10_million_password_list_top_1M.txt
package main

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	prefixBytes = 5
	minLength   = 10     // what a password must have at least
	stems       = 10_000 // of the most common ones, kept whatever their length
	minStem     = 5
)

func main() {
	f, err := os.Open(os.Args[1])
	check(err)
	var prefixes [][]byte
	lines := bufio.NewScanner(f)
	for n := 0; lines.Scan(); n++ {
		p := strings.ToLower(lines.Text())
		if length := utf8.RuneCountInString(p); length >= minLength || n < stems && length >= minStem {
			sum := sha1.Sum([]byte(p))
			prefixes = append(prefixes, sum[:prefixBytes])
		}
	}
	check(lines.Err())
	slices.SortFunc(prefixes, bytes.Compare)
	prefixes = slices.CompactFunc(prefixes, bytes.Equal)
	check(os.WriteFile("list.bin", bytes.Join(prefixes, nil), 0o644))
	fmt.Println(len(prefixes), "passwords")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
