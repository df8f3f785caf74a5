.PHONY: lab
lab: build/lab/uml-xstate.so

build/lab/uml-xstate.so: test/lab/uml-xstate.c
	@mkdir -p $(@D)
	gcc -shared -fPIC -O2 -Wall -Wextra -Werror -o $@ $<
