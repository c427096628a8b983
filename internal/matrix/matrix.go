// Package matrix holds the tests that try every operation there is with every
// kind of caller, own and foreign: request codes of brokers and name servers,
// methods of the gRPC service, operations of the HTTP API. What exists is read
// from the sources of truth (the table of request codes, the descriptor of the
// service, the contract), what each needs is written down here, and an operation
// that is not written down fails. There is no code here.
package matrix
