// Package commitlog is the one log that all messages of a broker go to.
package commitlog
