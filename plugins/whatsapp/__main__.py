"""The WhatsApp bridge: `python -m daycare_plugins.whatsapp`, in a folder of its own."""

from daycare_plugins.whatsapp.process import main

if __name__ == "__main__":
    main()
