"""Small networks of the families that people serve, written from their papers' architecture.

Each file has one network: a function `network()` that returns a network.Network.
"""
NAMES = ("bert", "clip_vision", "convnext_v2", "densenet", "gpt2", "mobilenet_v3", "resnet",
         "shufflenet_v2", "siamese_tracker", "siamfc", "swin_v2", "unet", "vit", "wav2vec2",
         "yolo11", "yolov8")
