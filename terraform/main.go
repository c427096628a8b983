// Terraform-provider-sluice lets Terraform manage Sluice. Terraform starts
// it; the only flag is for people who debug the provider itself.
package main

//go:generate go run ./gendocs

import (
	"context"
	"flag"
	"fmt"
	"os"

	tfprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/sluicemq/sluice/terraform/provider"
)

// version is set by the linker.
var version = "dev"

func main() {
	debug := flag.Bool("debug", false, "serve for a debugger and print how Terraform reaches it")
	flag.Parse()
	err := providerserver.Serve(context.Background(), func() tfprovider.Provider { return provider.New(version) },
		providerserver.ServeOpts{Address: provider.Address, Debug: *debug, ProtocolVersion: 6})
	if err != nil {
		fmt.Fprintln(os.Stderr, "terraform-provider-sluice:", err)
		os.Exit(1)
	}
}
