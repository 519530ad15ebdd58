"""WhatsApp: a bridge of its own process around whatsmeow, by way of neonize."""
