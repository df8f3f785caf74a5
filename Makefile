.PHONY: lab
lab: build/lab/uml-xstate.so build/test/enter_network_namespace.node

build/lab/uml-xstate.so: test/lab/uml-xstate.c
	@mkdir -p $(@D)
	gcc -shared -fPIC -O2 -Wall -Wextra -Werror -o $@ $<

build/test/enter_network_namespace.node: test/support/netns/enter-network-namespace.c
	@mkdir -p $(@D)
	gcc -shared -fPIC -O2 -Wall -Wextra -Werror -I node_modules/node-api-headers/include -o $@ $<
