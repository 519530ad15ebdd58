"""The offline responder: a provider that needs neither key nor network, because it is a few rules."""
