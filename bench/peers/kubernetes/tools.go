//go:build tools

// Package tools names the commands that the benchmark builds from the Kubernetes module.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
