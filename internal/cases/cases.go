// Package cases holds tests of the whole system that no single package can
// make: public failure reports turned into black-box tests (their ids, such as
// B036, stand at each), roles in processes of their own, and what a revoked key
// may still do. There is no code here.
package cases
